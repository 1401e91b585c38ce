/** What the writer thread can do for agents. */
import type { Clock } from '../../lib/clock.ts'
import type { Home } from '../../store/home.ts'
import type { Procedures, Tables } from '../../store/store.ts'
import { type AgentSealer, Keeper } from './keeper.ts'
import { loginProcedures } from './login-procedures.ts'
import { advance, begin, cancel, finish, recover } from './run-procedures.ts'
import { change, launch } from './session-procedures.ts'
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
  const kept =
    <Input, Output>(body: (keeper: Keeper, input: Input) => Promise<Output>) =>
    (tables: Tables, input: Input) =>
      body(new Keeper(tables, sealer, clock, home), input)
  return {
    ...loginProcedures(sealer, clock),
    [launchSession.name]: kept(launch),
    [changeSession.name]: kept(change),
    [beginRun.name]: kept(begin),
    [advanceRun.name]: kept(advance),
    [finishRun.name]: kept(finish),
    [cancelRun.name]: kept(cancel),
    [recoverRun.name]: kept(recover),
  }
}
