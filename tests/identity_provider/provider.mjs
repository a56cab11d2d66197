// An OpenID provider for the tests, on a free port of loopback: prints its issuer as one line, ends with its stdin.
// The first argument is JSON: {clients, accounts: {subject: claims}, clock_shift_seconds}; tokens are made at the shifted
// time, while the browser's cookies are not.
import { createServer } from 'node:http'
import { Provider } from 'oidc-provider'

const { clients, accounts, clock_shift_seconds: shift } = JSON.parse(process.argv[2])
const now = Date.now
let provider
let shifted = false
Date.now = () => now() + (shifted ? 1000 * shift : 0)

const server = createServer((request, response) => {
  shifted = request.url.startsWith('/token')
  provider.callback()(request, response)
})
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`
  provider = new Provider(issuer, {
    clients,
    claims: { openid: ['sub'], profile: ['preferred_username'], email: ['email', 'email_verified'], groups: ['groups'] },
    cookies: { keys: ['a key of the tests'] },
    pkce: { required: () => true },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...accounts[id] }) }),
  })
  console.log(issuer)
})
process.stdin.resume().on('end', () => process.exit())
