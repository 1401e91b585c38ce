/** Combines everything that the sidecar can do in one router. */
import { randomUUID } from 'node:crypto'
import { systemClock } from '../lib/clock.ts'
import { fileRoutes } from './files/routes.ts'
import { JobRegistry } from './jobs/job-registry.ts'
import { jobRoutes } from './jobs/job-routes.ts'
import { Leaks } from './jobs/leaks.ts'
import { PipePool } from './jobs/pipes.ts'
import { loadPty } from './jobs/pty-binding.ts'
import { programStarter } from './jobs/start-program.ts'
import { loginRoutes } from './logins/install-logins.ts'
import { GatewayListener } from './network/gateway-listener.ts'
import { PortConnections } from './network/port-connections.ts'
import { networkRoutes } from './network/routes.ts'
import { processRoutes } from './processes/routes.ts'
import { type Hello, PROTOCOL_VERSION } from './protocol.ts'
import { Router, type SidecarRoute } from './router.ts'
import type { Settings } from './settings.ts'

export interface Sidecar {
  readonly router: Router
  readonly jobs: JobRegistry
  /** Ends every job. */
  close(): Promise<void>
}

export interface SidecarOptions {
  readonly settings: Settings
  readonly version: string
  /** The sidecar's own environment. Programs inherit it without Craik's own variables. */
  readonly env: Readonly<Record<string, string | undefined>>
}

export async function createSidecar({ settings, version, env }: SidecarOptions): Promise<Sidecar> {
  const { home, workspace } = settings
  const pty = loadPty()
  const connections = new PortConnections()
  const gateway = new GatewayListener(connections)
  // Another program may have the port, in a sandbox without a network of its own. Then any free port is used.
  const gatewayPort = await gateway.listen(settings.gatewayPort).catch(() => gateway.listen(0))
  if (settings.gatewaySocket !== undefined) await gateway.listenAt(settings.gatewaySocket)
  const leaks = new Leaks()
  const pipes = new PipePool(leaks)
  pipes.fill()
  const start = programStarter({ home, workspace, gatewayPort, own: env }, { pipes, leaks, pty })
  const jobs = new JobRegistry({ start, spillFolder: settings.spillFolder })
  const hello: Hello = {
    protocol: PROTOCOL_VERSION,
    version,
    instance: randomUUID(),
    startedAtMs: Date.now(),
    home,
    workspace,
    gatewayPort,
    pty: pty !== undefined,
  }
  const greeting: SidecarRoute = { method: 'GET', path: '/hello', handle: (call) => call.answer(200, hello) }
  return {
    router: new Router([
      greeting,
      ...jobRoutes(jobs),
      ...fileRoutes({ workspace, clock: systemClock }),
      ...networkRoutes(gateway, connections),
      ...loginRoutes({ home, folder: settings.loginFolder }),
      ...processRoutes({
        home,
        isIsolated: settings.isIsolated,
        jobOf: (pid) => jobs.jobOf(pid),
        runningJobs: () => jobs.runningCount,
        openConnections: () => connections.open,
      }),
    ]),
    jobs,
    async close() {
      await Promise.all([jobs.close(), gateway.close()])
      pipes.close()
      leaks.close()
    },
  }
}
