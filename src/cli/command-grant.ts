/** Typing a command approves what it does: Craik creates a recorded grant for one use. */
import type { Capability } from '../policy/capabilities.ts'
import { createGrant, getGrant, revokeGrant } from '../policy/grants.ts'
import type { CliContext } from './context.ts'

/** A command uses its grant at once or never. */
const LIFETIME_MS = 2 * 60_000

export interface CommandGrant {
  readonly capability: Capability
  readonly operation: string
  /** Undefined: any target. */
  readonly target?: string
  /** Only for actions at a path. The grant then applies to this path only. */
  readonly path?: string
  /** The command as the user typed it, such as `craik sandbox create`. */
  readonly command: string
  /** For commands that take a while before they use the grant. */
  readonly lifetimeMs?: number
}

/** Creates the grant and runs the work. If the work fails before it uses the grant, Craik revokes the grant. */
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

/** Creates the grants for a command that needs more than one decision. The work gets the id of the first grant. */
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
