/** The routes about the process that serves the API. */
import { CraikError } from '../../errors.ts'
import { programsBody } from '../api/requests.ts'
import type { Api, RouteContext } from '../context.ts'

export function supervisorRoutes(app: Api, { options }: RouteContext): void {
  app.get('/health', () => ({ status: 'ok' }))
  app.get('/readyz', () => {
    if (options.supervisor.version().ready && !options.supervisor.draining) return { status: 'ready' }
    const doing = options.supervisor.draining ? 'is stopping' : 'is still starting'
    throw new CraikError('supervisor_unreachable', `the supervisor ${doing}`, {
      hint: 'try again; if this error returns, see why:  craik supervisor logs',
      details: { draining: options.supervisor.draining, retry_after_ms: 100 },
    })
  })
  app.get('/api/version', () => options.supervisor.version())
  app.get('/api/supervisor', () => options.supervisor.status())
  app.put('/api/supervisor/programs', { schema: { body: programsBody } }, (request) => {
    options.supervisor.offerPrograms(request.body.programs)
    return { programs: options.supervisor.version().programs ?? [] }
  })
  app.post('/api/supervisor/drain', (_request, reply) => {
    // Starts the shutdown after the response was sent, so that the client receives it.
    reply.raw.once('close', () => options.supervisor.drain())
    reply.header('connection', 'close')
    return reply.code(202).send({ draining: true, pid: options.supervisor.version().pid })
  })
}
