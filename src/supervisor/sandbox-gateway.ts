/**
 * Connects sandboxes to the gateway: identifies the sandbox of a connection, and selects the host logins that it gets.
 */
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
  /** Takes over the connection, and answers everything that arrives on it. */
  handle(stream: Duplex, caller: GatewayCaller): void
}

interface SandboxGatewayParts {
  readonly store: Store
  readonly clock: Clock
  readonly door: GatewayConnector
  /** Returns the placeholder credential for an account that only this sandbox may present. */
  readonly sentinel: (sandboxId: string, accountId: string) => string | undefined
}

/** Returns the manager options that depend on the gateway. */
export function gatewayFor(
  gateway: HostGateway,
  { store, clock }: Pick<SandboxGatewayParts, 'store' | 'clock'>,
): Required<Pick<ManagerOptions, 'inbound' | 'logins' | 'forget' | 'closing'>> {
  return {
    inbound: inboundToGateway({ store, clock, door: gateway.gateway, sentinel: gateway.sentinel }),
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

/** Returns the grant that was created with the sandbox, if there is one. */
function ownGrant(
  grants: SandboxRecord['owner_grants'],
  capability: string,
  operation: string,
): string | undefined {
  return capability === 'login.use' && operation !== 'install'
    ? grants['login.use/github']
    : grants[capability]
}
