/** What the writer thread can do for egress. */
import type { Clock } from '../../lib/clock.ts'
import type { Procedure, Procedures, Tables } from '../../store/store.ts'
import { decideEgress, refuseEgress } from './decide.ts'
import * as rules from './rule-procedures.ts'
import { RuleReader } from './rule-reader.ts'
import * as tokens from './tokens.ts'

export function egressProcedures(sealer: rules.EgressSealer, clock: Clock): Procedures {
  const reader = new RuleReader(
    (what, document, seal) => sealer.checkRecord(what, document, seal) === 'verified',
  )
  const kept = <Input, Output>(
    { name }: Procedure<Input, Output>,
    body: (work: rules.RuleWork, input: Input) => Promise<Output>,
  ): Procedures => ({
    [name]: (tables: Tables, input: Input) => body({ tables, sealer, clock, reader }, input),
  })
  return {
    ...kept(tokens.addRule, rules.addRule),
    ...kept(tokens.removeRule, rules.removeRule),
    ...kept(tokens.denyHost, rules.denyHost),
    ...kept(tokens.removeSandboxRules, rules.removeSandboxRules),
    ...kept(tokens.decideEgress, (work, input) => decideEgress(work, sealer, input)),
    ...kept(tokens.refuseEgress, (work, input) => refuseEgress(work, sealer, input)),
  }
}
