/** Does once what every start does, so that Node caches the compiled code for later starts. */
import { once } from 'node:events'
import { connect } from 'node:http2'
import { duplexPair } from 'node:stream'
import { PROTOCOL_HEADER, PROTOCOL_VERSION } from './protocol.ts'
import { serve } from './server.ts'
import type { Settings } from './settings.ts'
import { createSidecar } from './sidecar.ts'

/** Sends requests to its own sidecar: a greeting and one program. */
export async function warm(settings: Settings, version: string): Promise<void> {
  const sidecar = await createSidecar({ settings: { ...settings, gatewayPort: 0 }, version, env: {} })
  const [ours, theirs] = duplexPair()
  serve(theirs, sidecar.router, () => {})
  const session = connect('http://sidecar', { createConnection: () => ours })
  const ask = async (method: string, path: string, body?: string) => {
    const stream = session.request({ ':method': method, ':path': path, [PROTOCOL_HEADER]: PROTOCOL_VERSION })
    stream.end(body)
    stream.resume()
    await once(stream, 'close')
  }
  await ask('GET', '/hello')
  await ask('PUT', '/jobs/warm?attach=1', JSON.stringify({ kind: 'exec', argv: ['true'], cwd: '/' }))
  session.destroy()
  await sidecar.close()
}
