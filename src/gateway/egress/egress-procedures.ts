/** The writer thread's procedures for egress. */
import type { Clock } from '../../lib/clock.ts'
import type { Procedure, Procedures, Tables } from '../../store/store.ts'
import { decideEgress, refuseEgress } from './decide-egress.ts'
import * as rules from './rule-procedures.ts'
import { RuleReader } from './rule-reader.ts'
import * as tokens from './tokens.ts'

export function egressProcedures(sealer: rules.EgressSealer, clock: Clock): Procedures {
  const reader = new RuleReader(
    (what, document, seal) => sealer.checkRecord(what, document, seal) === 'verified',
  )
  const ruleProcedure = <Input, Output>(
    { name }: Procedure<Input, Output>,
    body: (work: rules.RuleWork, input: Input) => Promise<Output>,
  ): Procedures => ({
    [name]: (tables: Tables, input: Input) => body({ tables, sealer, clock, reader }, input),
  })
  return {
    ...ruleProcedure(tokens.addRule, rules.addRule),
    ...ruleProcedure(tokens.removeRule, rules.removeRule),
    ...ruleProcedure(tokens.denyHost, rules.denyHost),
    ...ruleProcedure(tokens.removeSandboxRules, rules.removeSandboxRules),
    ...ruleProcedure(tokens.decideEgress, (work, input) => decideEgress(work, sealer, input)),
    ...ruleProcedure(tokens.refuseEgress, (work, input) => refuseEgress(work, sealer, input)),
  }
}
