/** A gateway of its own for the programs of one person outside sandboxes, for as long as a command runs. */
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
  /** 0: a free one. */
  readonly port: number
  readonly profile: PolicyProfile
  /** For how long there is leave to use it. */
  readonly spanMs: number
}

export interface LocalGateway {
  /** Without a path. */
  readonly url: string
  readonly tokenFile: string
  readonly grantId: string
  readonly expiresAtMs: number
  /** What its receipts have in common. */
  readonly runId: string
  /** How many requests came without the token. */
  readonly refused: number
  /** The logins that it is of use for. */
  accounts(until: AbortSignal): Promise<readonly Account[]>
  /** Ends what is going on; its grant and its token end with it. Idempotent. */
  close(): Promise<void>
}

const TOKEN_BYTES = 32
/** Its time begins when it is open, and its grant comes before that: so much later it ends, were it not revoked. */
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
  // Of this run alone: a sandbox of the same person asks within another scope, and finds nothing to use in it.
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
  const listener = await openLoopbackListener(gateway.door, caller, token, options.port)
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
    // Of GitHub nothing is served here.
    accounts: async (until) =>
      (await gateway.broker.accounts(until)).filter(({ family }) => family !== 'github'),
    close: () => open.disposeAsync(),
  }
}

/** One that somebody revoked before stays as it is. */
async function revoke({ store, operator }: LocalGatewayOptions, grantId: string): Promise<void> {
  try {
    await revokeGrant(store, grantId, operator)
  } catch (error) {
    if (!(error instanceof CraikError && error.code === 'conflict')) throw error
  }
}
