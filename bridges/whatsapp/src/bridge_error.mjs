/** An answer to a request that could not be served: becomes `{"code", "detail"}`. */
export class BridgeError extends Error {
  /**
   * @param {number} status of HTTP
   * @param {string} code
   * @param {string} detail
   */
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}
