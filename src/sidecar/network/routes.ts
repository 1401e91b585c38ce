/** Connections over the boundary: from the host to ports inside, and from inside to the host's gateway. */
import type { Route } from '../router.ts'
import { connectPort } from './connect-port.ts'
import type { GatewayListener } from './gateway-listener.ts'
import type { PortConnections } from './port-connections.ts'

export function networkRoutes(gateway: GatewayListener, connections: PortConnections): readonly Route[] {
  return [
    { method: 'POST', path: '/ports/:port', handle: (call) => connectPort(call, connections) },
    { method: 'POST', path: '/accept', handle: (call) => gateway.accept(call) },
  ]
}
