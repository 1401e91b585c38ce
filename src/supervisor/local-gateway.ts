/** Runs a gateway for the user's programs outside sandboxes, for as long as a command runs. */
import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Account } from '../accounts/account.ts'
import { CraikError } from '../errors.ts'
import type { GatewayCaller } from '../gateway/caller.ts'
import { openLoopbackListener } from '../gateway/loopback-listener.ts'
import { newId } from '../lib/ids.ts'
import { writePrivateFile } from '../lib/private-files.ts'
import { createGrant, revokeGrant } from '../policy/grants.ts'
import { operatorEnvelope } from '../policy/operator-envelope.ts'
import type { PolicyProfile } from '../policy/profiles.ts'
import { type HostGatewayOptions, openHostGateway } from './host-gateway.ts'
import { ensureRunFolder } from './run-folder.ts'

export interface LocalGatewayOptions extends HostGatewayOptions {
  /** Port 0 selects a free port. */
  readonly port: number
  readonly profile: PolicyProfile
  /** How long the gateway may be used. */
  readonly spanMs: number
}

export interface LocalGateway {
  /** The URL without a path. */
  readonly url: string
  readonly tokenFile: string
  readonly grantId: string
  readonly expiresAtMs: number
  /** The run id of all its receipts. */
  readonly runId: string
  /** The number of requests without the token, or with another Host. */
  readonly refused: number
  /** Returns the logins that this gateway can use. */
  accounts(until: AbortSignal): Promise<readonly Account[]>
  /** Ends all requests in progress, the grant and the token. Idempotent. */
  close(): Promise<void>
}

const TOKEN_BYTES = 32
/**
 * The gateway's time starts when it is open, and its grant is created before that. If the grant is not revoked, it
 * therefore expires this much later.
 */
const OPENING_MS = 60_000

export async function openLocalGateway(options: LocalGatewayOptions): Promise<LocalGateway> {
  const { store, operator, clock, home } = options
  await using opening = new AsyncDisposableStack()
  const { folder } = ensureRunFolder(home)
  const envelope = await operatorEnvelope(options, options.profile)
  const runId = newId<string>('gateway', clock.nowMs())
  const gateway = await openHostGateway(options)
  opening.defer(() => gateway.close())
  const token = `craik-${randomBytes(TOKEN_BYTES).toString('hex')}`
  const grantEndsMs = clock.nowMs() + options.spanMs + OPENING_MS
  // The scope is this run alone. A sandbox of the same user sends requests with another scope, so it cannot use this
  // grant.
  const scope = { run_id: runId }
  const { grant } = await createGrant(
    store,
    {
      capability: 'model.chat',
      operations: ['chat'],
      subject: operator,
      scope,
      max_uses: null,
      reason: 'typed: craik gateway',
      approved_by: operator,
    },
    { expiresAtMs: grantEndsMs },
  )
  opening.defer(() => revoke(options, grant.id))
  const caller: GatewayCaller = {
    operator,
    policyEnvelopeId: envelope.id,
    sandboxId: undefined,
    scope,
    credentials: 'broker',
    sentinelFor: () => token,
    grantFor: async (capability) => (capability === 'model.chat' ? grant.id : undefined),
  }
  const listener = await openLoopbackListener(gateway.gateway, caller, token, options.port)
  opening.defer(() => listener.close())
  const tokenFile = join(folder, `gateway-${listener.port}.token`)
  opening.defer(() => rmSync(tokenFile, { force: true }))
  writePrivateFile(tokenFile, `${token}\n`)
  const open = opening.move()
  return {
    url: `http://127.0.0.1:${listener.port}`,
    tokenFile,
    runId,
    grantId: grant.id,
    expiresAtMs: clock.nowMs() + options.spanMs,
    get refused() {
      return listener.refused
    },
    // This gateway does not serve GitHub.
    accounts: async (until) =>
      (await gateway.broker.accounts(until)).filter(({ family }) => family !== 'github'),
    close: () => open.disposeAsync(),
  }
}

/** If the grant is already revoked, it stays as it is. */
async function revoke({ store, operator }: LocalGatewayOptions, grantId: string): Promise<void> {
  try {
    await revokeGrant(store, grantId, operator)
  } catch (error) {
    if (!(error instanceof CraikError && error.code === 'conflict')) throw error
  }
}
