# The WhatsApp bridge: its code and the packages of its lock file.
FROM node:22-slim
WORKDIR /whatsapp
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts --omit=dev
COPY src src
ENV HOME=/tmp
USER 1000:1000
EXPOSE 8421
CMD ["node", "src/main.mjs"]
