/** Removes a demo's records except its receipts: sessions, runs, handoffs, events. The log keeps everything. */
import { CraikError } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import type { ReceiptRef } from '../../receipts/receipt-writer.ts'
import type { Home } from '../../store/home.ts'
import { type Procedures, procedure, type Tables } from '../../store/store.ts'
import { AgentRecords, type AgentSealer } from '../agents/agent-records.ts'

/** The operator of every demo, so that no user's own session looks like one of a demo. */
export const DEMO_OPERATOR = 'operator:persistent-agent-demo'
export const DEMO_SESSION_PREFIX = 'agent_demo_'

interface Removed {
  readonly runs: number
  readonly handoffs: number
  readonly events: number
  readonly receipt: ReceiptRef
}

/** Each session gets one prompt, but users can prompt a session that was kept. */
const RECORDS_MAX = 1_000

export const removeDemoSession = procedure<{ readonly sessionId: string }, Removed>('demo.remove_session')

export function demoProcedures(sealer: AgentSealer, clock: Clock, home: Home): Procedures {
  return {
    [removeDemoSession.name]: async (
      tables: Tables,
      { sessionId }: { readonly sessionId: string },
    ): Promise<Removed> => {
      const records = new AgentRecords(tables, sealer, clock, home)
      const { record: session } = await records.session(sessionId)
      if (session.operator_subject !== DEMO_OPERATOR || !session.id.startsWith(DEMO_SESSION_PREFIX))
        throw new CraikError('denied', `cannot remove session ${sessionId}: it is not a demo session`, {
          hint: 'list sessions:  craik agent list',
        })
      const runs = await tables.runs.list({ session_id: sessionId }, RECORDS_MAX)
      const handoffs = await tables.handoffs.list({ session_id: sessionId }, RECORDS_MAX)
      await tables.sessions.remove(sessionId)
      for (const { id } of runs) await tables.runs.remove(id)
      for (const { id } of handoffs) await tables.handoffs.remove(id)
      const events = await tables.agentEvents.removeWith(sessionId)
      const receipt = await records.receipt({
        status: 'passed',
        operator: DEMO_OPERATOR,
        capability: 'agent.session',
        operation: 'remove',
        target: sessionId,
        links: { session_id: sessionId, policy_envelope_id: session.policy_envelope_id },
        metadata: { runs: runs.length, handoffs: handoffs.length, events },
      })
      return { runs: runs.length, handoffs: handoffs.length, events, receipt }
    },
  }
}
