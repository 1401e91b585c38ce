/**
 * Serves Google's model API at an address with known prices. Craik finds a price by the address, and the table's
 * pattern for Google accepts any host before `googleapis.com`.
 */
import { createServer, request } from 'node:https'
import type { AddressInfo } from 'node:net'
import type { Certificate } from '../wire/certificate.ts'

const PATH = '/generativelanguage.googleapis.com/v1beta'

export interface PricedProvider extends AsyncDisposable {
  readonly baseUrl: string
}

/** Starts a server that forwards to the provider at `target`. */
export async function startPricedProvider(certificate: Certificate, target: string): Promise<PricedProvider> {
  const server = createServer({ ...certificate }, (incoming, outgoing) => {
    const { method = 'GET', headers, url = '' } = incoming
    const address = target + url.slice(PATH.length)
    const forwarded = request(address, { method, headers, ca: certificate.cert }, (response) => {
      outgoing.writeHead(response.statusCode!, response.headers)
      response.pipe(outgoing)
    })
    forwarded.on('error', () => outgoing.destroy())
    incoming.pipe(forwarded)
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  return {
    baseUrl: `https://127.0.0.1:${(server.address() as AddressInfo).port}${PATH}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((closed) => server.close(closed))
    },
  }
}
