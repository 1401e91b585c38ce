/** Where a rule holds, as flags say it: one sandbox, or all of the operator's. */
import { type Command, Option } from 'commander'
import { CraikError } from '../../errors.ts'
import { getSandbox } from '../../sandboxes/lifecycle/read-records.ts'
import type { CliContext } from '../context.ts'

export interface ScopeFlags {
  readonly sandbox?: string
  readonly allSandboxes?: boolean
}

export interface RuleScope {
  /** Whose sandboxes. */
  readonly operator: string
  readonly sandboxId: string | null
  /** As a person knows it. */
  readonly shown: string
}

export function addScope(command: Command): Command {
  return command
    .option('--sandbox <id>', 'only this sandbox; id or name')
    .addOption(
      new Option('--all-sandboxes', 'all your sandboxes, including future ones').conflicts('sandbox'),
    )
}

/** Sandboxes that nobody named are called `sandbox-…`. */
function describeName(id: string, name: string): string {
  return name === id || name.startsWith('sandbox') ? name : `sandbox ${name}`
}

export async function scopeOf(context: CliContext, flags: ScopeFlags): Promise<RuleScope> {
  if (flags.allSandboxes)
    return { operator: await context.operator(), sandboxId: null, shown: 'all sandboxes' }
  if (flags.sandbox === undefined)
    throw new CraikError('usage', 'an egress rule needs a sandbox: --sandbox is missing', {
      hint: 'list sandboxes:  craik sandbox list   or use all of yours:  --all-sandboxes',
    })
  const store = await context.store()
  const { id, operator, name } = await getSandbox({ store, home: context.home }, flags.sandbox)
  return { operator, sandboxId: id, shown: describeName(id, name) }
}
