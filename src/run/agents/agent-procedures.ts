/** The agent procedures of the writer thread. */
import type { Clock } from '../../lib/clock.ts'
import type { Home } from '../../store/home.ts'
import type { Procedures, Tables } from '../../store/store.ts'
import { AgentRecords, type AgentSealer } from './agent-records.ts'
import { loginProcedures } from './login-procedures.ts'
import { advance, cancel, finish, insertRun, recover } from './run-procedures.ts'
import { change, insertSession } from './session-procedures.ts'
import {
  advanceRun,
  beginRun,
  cancelRun,
  changeSession,
  finishRun,
  launchSession,
  recoverRun,
} from './tokens.ts'

export function agentProcedures(sealer: AgentSealer, clock: Clock, home: Home): Procedures {
  const recordProcedure =
    <Input, Output>(body: (records: AgentRecords, input: Input) => Promise<Output>) =>
    (tables: Tables, input: Input) =>
      body(new AgentRecords(tables, sealer, clock, home), input)
  return {
    ...loginProcedures(sealer, clock),
    [launchSession.name]: recordProcedure(insertSession),
    [changeSession.name]: recordProcedure(change),
    [beginRun.name]: recordProcedure(insertRun),
    [advanceRun.name]: recordProcedure(advance),
    [finishRun.name]: recordProcedure(finish),
    [cancelRun.name]: recordProcedure(cancel),
    [recoverRun.name]: recordProcedure(recover),
  }
}
