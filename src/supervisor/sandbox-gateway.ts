/** Joins sandboxes with the gateway: whose a connection from inside is, and what a sandbox gets of the host's logins. */
import type { Duplex } from 'node:stream'
import type { GatewayCaller } from '../gateway/caller.ts'
import { removeSandboxRules } from '../gateway/egress/tokens.ts'
import type { Clock } from '../lib/clock.ts'
import { usableGrant } from '../policy/find-grant.ts'
import type { SandboxRecord } from '../sandboxes/lifecycle/sandbox-record.ts'
import type { ManagerOptions } from '../sandboxes/manager/manager-options.ts'
import type { Store } from '../store/store.ts'
import type { HostGateway } from './host-gateway.ts'
import { sandboxLogins } from './sandbox-logins.ts'

interface GatewayConnector {
  /** Takes the connection over; answers it, whatever comes on it. */
  handle(stream: Duplex, caller: GatewayCaller): void
}

interface SandboxGatewayParts {
  readonly store: Store
  readonly clock: Clock
  readonly door: GatewayConnector
  /** What a sandbox may present for an account, and nobody else. */
  readonly sentinel: (sandboxId: string, accountId: string) => string | undefined
}

/** Everything that the manager of sandboxes is told of the gateway. */
export function gatewayFor(
  gateway: HostGateway,
  { store, clock }: Pick<SandboxGatewayParts, 'store' | 'clock'>,
): Required<Pick<ManagerOptions, 'inbound' | 'logins' | 'forget' | 'closing'>> {
  return {
    inbound: inboundToGateway({ store, clock, door: gateway.door, sentinel: gateway.sentinel }),
    logins: sandboxLogins(gateway),
    async forget({ id, operator }) {
      await store.write(removeSandboxRules, { sandboxId: id, operator })
    },
    closing: () => gateway.close(),
  }
}

function inboundToGateway(parts: SandboxGatewayParts): NonNullable<ManagerOptions['inbound']> {
  return (sandbox, others) => (stream) => {
    const record = sandbox.record()
    if (record === undefined) {
      others.handle(stream)
      return
    }
    others.countTaken()
    parts.door.handle(stream, callerOf(parts, record))
  }
}

function callerOf(
  { store, clock, sentinel }: SandboxGatewayParts,
  { id, operator, policy_envelope_id, owner_grants, spec }: SandboxRecord,
): GatewayCaller {
  return {
    operator,
    policyEnvelopeId: policy_envelope_id,
    sandboxId: id,
    scope: {},
    credentials: spec.credentials,
    sentinelFor: (accountId) => (spec.credentials === 'broker' ? sentinel(id, accountId) : undefined),
    grantFor: (capability, operation, target) =>
      store.read((tables) =>
        usableGrant(
          tables,
          { operator, capability, operation, target, scope: { sandbox_id: id }, policy_envelope_id },
          clock.nowMs(),
          ownGrant(owner_grants, capability, operation),
        ),
      ),
  }
}

/** Of those that came with the sandbox. */
function ownGrant(
  grants: SandboxRecord['owner_grants'],
  capability: string,
  operation: string,
): string | undefined {
  return capability === 'login.use' && operation !== 'install'
    ? grants['login.use/github']
    : grants[capability]
}
