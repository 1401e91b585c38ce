/** Reads the sidecar's settings from its environment. */
import { join } from 'node:path'
import { GATEWAY_PORT, INSIDE, SIDECAR_ENV } from './protocol.ts'

export interface Settings {
  readonly socket: string
  /** If this socket is set, the sidecar listens on it and connects to none. */
  readonly listen?: string | undefined
  readonly home: string
  readonly workspace: string
  readonly gatewayPort: number
  /** Whether the sandbox has namespaces of its own. It has none with isolation `none`. */
  readonly isIsolated: boolean
  readonly spillFolder: string
  readonly loginFolder: string
  /** The Unix socket that leads to the same gateway as the loopback port. */
  readonly gatewaySocket?: string
}

export function readSettings(env: Readonly<Record<string, string | undefined>>): Settings {
  const home = env[SIDECAR_ENV.home] || INSIDE.home
  const port = Number(env[SIDECAR_ENV.gatewayPort] || GATEWAY_PORT)
  // Only on the host, other programs can have the usual port, so the host then asks for any free one.
  const isIsolated = port !== 0
  return {
    socket: env[SIDECAR_ENV.socket] || join(INSIDE.socketFolder, INSIDE.socketName),
    listen: env[SIDECAR_ENV.listen] || undefined,
    home,
    workspace: env[SIDECAR_ENV.workspace] || join(home, 'project'),
    gatewayPort: Number.isInteger(port) && port >= 0 && port < 65536 ? port : GATEWAY_PORT,
    spillFolder: env[SIDECAR_ENV.spill] || join(home, '.cache', 'craik'),
    isIsolated,
    loginFolder: INSIDE.logins,
    // A sandbox without a root file system of its own has no private folder for the socket.
    ...(isIsolated && { gatewaySocket: INSIDE.gatewaySocket }),
  }
}
