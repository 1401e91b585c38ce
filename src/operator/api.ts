/**
 * The operator API, the only way to control the supervisor. It parses requests, calls the sandbox manager and
 * serializes the response. It decides nothing.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify'
import type { z } from 'zod'
import { CraikError } from '../errors.ts'
import { API_LIMITS, BYTES_TYPE } from './api/api-constants.ts'
import {
  asCraikError,
  errorBody,
  invalidRequest,
  shuttingDownError,
  statusOfError,
  writeError,
} from './api-error.ts'
import { type Api, callerOf, type OperatorApiOptions, type RouteContext, type ZodTypes } from './context.ts'
import { accountRoutes } from './routes/accounts.ts'
import { execRoute } from './routes/exec.ts'
import { addFileRoutes } from './routes/files.ts'
import { addJobRoutes } from './routes/jobs.ts'
import { servePorts } from './routes/ports.ts'
import { addProcessRoutes } from './routes/processes.ts'
import { sandboxRoutes } from './routes/sandboxes.ts'
import { snapshotRoutes } from './routes/snapshots.ts'
import { supervisorRoutes } from './routes/supervisor.ts'
import { volumeRoutes } from './routes/volumes.ts'

/** Longer than any of Craik's clients leaves a connection unused between two requests. */
const KEEP_ALIVE_MS = 30_000
const MAX_URL_PARAMETER = 200

/** These reveal nothing that needs a token. */
const OPEN_ROUTES = new Set(['/health', '/readyz'])

export interface OperatorApi {
  readonly app: Api
  /** The routes that it serves, such as `GET /health`. */
  readonly routes: readonly string[]
}

export async function createOperatorApi(options: OperatorApiOptions): Promise<OperatorApi> {
  const app = Fastify({
    bodyLimit: API_LIMITS.jsonBytes,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // Streams last as long as the data that they carry.
    requestTimeout: 0,
    exposeHeadRoutes: false,
    routerOptions: { maxParamLength: MAX_URL_PARAMETER },
    frameworkErrors: (error, _request, reply) => sendError(options, reply, error, 'request'),
    clientErrorHandler: (_error, socket) => {
      if (socket.writable)
        socket.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n')
    },
  }).withTypeProvider<ZodTypes>()

  app.setValidatorCompiler<z.ZodType>(({ schema, httpPart }) => (data) => {
    const parsed = schema.safeParse(data ?? (httpPart === 'body' ? data : {}))
    return parsed.success
      ? { value: parsed.data }
      : { error: invalidRequest(parsed.error, httpPart ?? 'request') }
  })
  app.setSerializerCompiler(() => (value) => JSON.stringify(value))
  app.setErrorHandler((error, request, reply) =>
    sendError(options, reply, error, `${request.method} ${request.routeOptions.url ?? ''}`),
  )
  app.setNotFoundHandler((request, reply) => {
    const error = new CraikError('not_found', `unknown route: ${request.method} ${pathOf(request)}`, {
      hint: 'see the routes in docs/reference/operator-api.md',
    })
    return sendError(options, reply, error, 'route')
  })
  // Bodies of bytes are not buffered, because the route reads the stream.
  app.addContentTypeParser(BYTES_TYPE, (_request, _payload, done) => done(null))

  const requireToken = tokenCheck(options.token)
  app.addHook('onRequest', async (request) => {
    if (OPEN_ROUTES.has(request.routeOptions.url ?? '')) return
    requireToken(request.headers)
    if (options.supervisor.draining) throw shuttingDownError()
  })

  const routes: string[] = []
  app.addHook('onRoute', ({ method, url }) => {
    routes.push(`${method} ${url}`)
  })
  const context: RouteContext = {
    options,
    manager: () => options.manager,
    caller: (request, reply) => callerOf(options, request.headers, disconnectSignal(reply.raw)),
  }
  supervisorRoutes(app, context)
  accountRoutes(app, context)
  sandboxRoutes(app, context)
  snapshotRoutes(app, context)
  volumeRoutes(app, context)
  execRoute(app, context)
  addJobRoutes(app, context)
  addFileRoutes(app, context)
  addProcessRoutes(app, context)
  servePorts(app, context, requireToken)
  await app.ready()
  return { app, routes }
}

/** Compares in constant time, whatever the client sent. */
function tokenCheck(token: string): (headers: IncomingMessage['headers']) => void {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  const expected = digest(`Bearer ${token}`)
  return (headers) => {
    if (timingSafeEqual(digest(headers.authorization ?? ''), expected)) return
    throw new CraikError('unauthorized', 'the header authorization has no valid token')
  }
}

/** Returns a signal that aborts when the client disconnects before it received the whole response. */
function disconnectSignal(response: ServerResponse): AbortSignal {
  const gone = new AbortController()
  const abortIfUnfinished = () => {
    if (!response.writableFinished) gone.abort(new CraikError('interrupted', 'the client disconnected'))
  }
  if (response.closed) abortIfUnfinished()
  else response.once('close', abortIfUnfinished)
  return gone.signal
}

function sendError(
  options: OperatorApiOptions,
  reply: FastifyReply,
  thrown: unknown,
  where: string,
): FastifyReply | undefined {
  const error = asCraikError(thrown)
  if (error.code === 'internal') options.onFault(error.cause ?? error, where)
  if (reply.raw.headersSent) {
    reply.raw.destroy()
    return undefined
  }
  if (reply.sent) {
    writeError(reply.raw, error)
    return undefined
  }
  return reply.code(statusOfError(error)).send(errorBody(error))
}

function pathOf(request: FastifyRequest): string {
  const path = request.url.split('?', 1)[0]!
  return path.length > 100 ? `${path.slice(0, 100)}…` : path
}
