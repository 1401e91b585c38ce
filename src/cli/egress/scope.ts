/** Parses the scope of a rule: one sandbox, or all sandboxes of the operator. */
import { type Command, Option } from 'commander'
import { CraikError } from '../../errors.ts'
import { getSandbox } from '../../sandboxes/lifecycle/read-records.ts'
import type { CliContext } from '../context.ts'

export interface ScopeFlags {
  readonly sandbox?: string
  readonly allSandboxes?: boolean
}

export interface RuleScope {
  /** The operator whose sandboxes the rule applies to. */
  readonly operator: string
  readonly sandboxId: string | null
  /** The scope in words for the user. */
  readonly shown: string
}

export function addScope(command: Command): Command {
  return command
    .option('--sandbox <id>', 'only for this sandbox, by id or name')
    .addOption(
      new Option('--all-sandboxes', 'for all your sandboxes, including future ones').conflicts('sandbox'),
    )
}

/** The default name of a sandbox is `sandbox-…`, so the noun would appear twice. */
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
