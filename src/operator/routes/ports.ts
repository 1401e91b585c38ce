/** The route for a port of a sandbox. The connection of the request itself becomes the stream to the port. */
import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { CraikError } from '../../errors.ts'
import { PORT_PROTOCOL } from '../api/api-constants.ts'
import { portParams } from '../api/requests.ts'
import { asCraikError, errorBody, invalidRequest, shuttingDownError, statusOfError } from '../api-error.ts'
import { type Api, callerOf, type RouteContext, resolveSandboxId } from '../context.ts'
import { joinStreams } from '../stream-responses.ts'

const PATH = /^\/api\/sandboxes\/([^/?]{1,200})\/ports\/([^/?]{1,10})$/

export function servePorts(
  app: Api,
  context: RouteContext,
  requireToken: (headers: IncomingMessage['headers']) => void,
): void {
  const { options } = context
  app.server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    const gone = new AbortController()
    const release = () => gone.abort(new CraikError('interrupted', 'the client disconnected'))
    socket.once('close', release).once('error', release)
    connect(request, gone.signal).then(
      (stream) => {
        if (socket.destroyed) return stream.destroy()
        socket.write(
          `HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: ${PORT_PROTOCOL}\r\n\r\n`,
        )
        if (head.length > 0) socket.unshift(head)
        joinStreams(socket, stream)
        return undefined
      },
      (thrown) => {
        const error = asCraikError(thrown)
        if (error.code === 'internal') options.onFault(error.cause ?? error, 'GET port')
        socket.end(refusal(error))
      },
    )
  })

  async function connect(request: IncomingMessage, signal: AbortSignal): Promise<Duplex> {
    requireToken(request.headers)
    if (options.supervisor.draining) throw shuttingDownError()
    const match = PATH.exec(request.url ?? '')
    if (match === null || request.headers.upgrade !== PORT_PROTOCOL)
      throw new CraikError(
        'usage',
        `cannot upgrade this request: only /api/sandboxes/ID/ports/PORT upgrades, to ${PORT_PROTOCOL}`,
      )
    const parsed = portParams.safeParse({ id: match[1], port: match[2] })
    if (!parsed.success) throw invalidRequest(parsed.error, 'params')
    const sandboxes = await context.manager()
    const id = await resolveSandboxId(sandboxes, parsed.data.id)
    return sandboxes.inside.connect(await callerOf(options, request.headers, signal), id, parsed.data.port)
  }
}

function refusal(error: CraikError): string {
  const text = JSON.stringify(errorBody(error))
  const status = statusOfError(error)
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Error'}`,
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(text)}`,
    'connection: close',
    '',
    text,
  ].join('\r\n')
}
