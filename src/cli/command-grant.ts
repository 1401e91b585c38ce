/** Whoever types a command gives leave for it: a grant for one use, on record like any other. */
import type { Capability } from '../policy/capabilities.ts'
import { createGrant, getGrant, revokeGrant } from '../policy/grants.ts'
import type { CliContext } from './context.ts'

/** It is used at once or never. */
const LIFETIME_MS = 2 * 60_000

export interface CommandGrant {
  readonly capability: Capability
  readonly operation: string
  /** Without one, any. */
  readonly target?: string
  /** Only for what happens at a path, and then only there. */
  readonly path?: string
  /** As it was typed, such as `craik sandbox create`. */
  readonly command: string
  /** For what takes a while before it is asked. */
  readonly lifetimeMs?: number
}

/** One that was not used is revoked. */
export async function withCommandGrant<T>(
  context: CliContext,
  { capability, operation, target, path, command, lifetimeMs = LIFETIME_MS }: CommandGrant,
  work: (grantId: string) => Promise<T>,
): Promise<T> {
  const store = await context.store()
  const operator = await context.operator()
  const { grant } = await createGrant(
    store,
    {
      capability,
      subject: operator,
      scope: 'any',
      target: { ...(target !== undefined && { ref: target }), ...(path !== undefined && { paths: [path] }) },
      operations: [operation],
      max_uses: 1,
      reason: `typed: ${command}`,
      approved_by: operator,
    },
    { expiresAtMs: context.clock.nowMs() + lifetimeMs },
  )
  try {
    return await work(grant.id)
  } catch (error) {
    const { state } = await getGrant(store, grant.id, context.clock.nowMs())
    if (state === 'usable') await revokeGrant(store, grant.id, operator)
    throw error
  }
}

/** For a command that asks more than one question; the work is told the grant for the first. */
export function withCommandGrants<T>(
  context: CliContext,
  [first, ...more]: readonly [CommandGrant, ...CommandGrant[]],
  work: (grantId: string) => Promise<T>,
): Promise<T> {
  const [second, ...others] = more
  return withCommandGrant(context, first, (grantId) =>
    second === undefined
      ? work(grantId)
      : withCommandGrants(context, [second, ...others], () => work(grantId)),
  )
}
