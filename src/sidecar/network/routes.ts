/** Connections over the boundary: from the host to ports in the sandbox, and from the sandbox to the host's gateway. */
import type { SidecarRoute } from '../router.ts'
import { connectPort } from './connect-port.ts'
import type { GatewayListener } from './gateway-listener.ts'
import type { PortConnections } from './port-connections.ts'

export function networkRoutes(
  gateway: GatewayListener,
  connections: PortConnections,
): readonly SidecarRoute[] {
  return [
    { method: 'POST', path: '/ports/:port', handle: (call) => connectPort(call, connections) },
    { method: 'POST', path: '/accept', handle: (call) => gateway.accept(call) },
  ]
}
