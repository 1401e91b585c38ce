/** Prompts in the writer thread: each record is sealed, and the log has its begin and end. */
import { CraikError } from '../../errors.ts'
import { canonicalJson, type Json } from '../../lib/canonical-json.ts'
import type { Clock } from '../../lib/clock.ts'
import type { ReceiptWriter } from '../../receipts/receipt-writer.ts'
import { checkRecord, type RecordSealer } from '../../receipts/record-seal.ts'
import type { ReceiptDraft } from '../../receipts/schema.ts'
import type { Home } from '../../store/home.ts'
import type { Procedures, Tables } from '../../store/store.ts'
import { type PromptRun, parsePromptRun } from './prompt-record.ts'
import { beginPrompt, changePrompt, type PromptChange } from './tokens.ts'

type Sealer = ReceiptWriter & RecordSealer

export function promptProcedures(sealer: Sealer, clock: Clock, home: Home): Procedures {
  const sealRun = async (tables: Tables, run: PromptRun) => {
    const document = canonicalJson(JSON.parse(JSON.stringify(run)) as Json)
    return { id: run.id, document, seal: await sealer.sealRecord(tables, `prompt:${run.id}`, document) }
  }
  const receipt = (
    tables: Tables,
    run: PromptRun,
    more: Pick<ReceiptDraft, 'status' | 'operation' | 'metadata'>,
  ) => sealer.append(tables, { kind: 'environment_decision', phase: 'point', ...aboutPrompt(run), ...more })
  return {
    [beginPrompt.name]: async (tables: Tables, { run }: { readonly run: PromptRun }) => {
      const { harness, prompt_hash } = run
      const begun = await receipt(tables, run, {
        status: 'passed',
        operation: 'begin',
        metadata: { harness, prompt_hash, workspace_mode: run.workspace_mode },
      })
      const row = { ...(await sealRun(tables, run)), createdAtMs: clock.nowMs() }
      if (!(await tables.promptRuns.insert(row)))
        throw new CraikError('conflict', `run ${run.id} already exists`, {
          hint: `show the run:  craik run show ${run.id}`,
        })
      return begun
    },
    [changePrompt.name]: async (tables: Tables, { id, agentSession, end }: PromptChange) => {
      const row = await tables.promptRuns.get(id)
      if (row === undefined)
        throw new CraikError('not_found', `unknown run: ${id}`, {
          hint: 'list runs:  craik run list --prompts',
        })
      if (checkRecord(home, `prompt:${id}`, row.document, row.seal) !== 'verified')
        throw new CraikError('tampered', `run ${id} was changed outside Craik`, {
          hint: `list the receipts of the run:  craik receipts list --run ${id}`,
        })
      const run: PromptRun = {
        ...parsePromptRun(row.document),
        ...(agentSession !== undefined && { agent_session: agentSession }),
        ...(end && { ...end, ended_at: new Date(clock.nowMs()).toISOString() }),
      }
      if (end)
        await receipt(tables, run, {
          status: end.status === 'completed' ? 'passed' : 'failed',
          operation: 'end',
          metadata: {
            run_status: end.status,
            stop_reason: end.stop_reason,
            changed_files: end.changed_files,
          },
        })
      await tables.promptRuns.update(await sealRun(tables, run))
      return run
    },
  }
}

function aboutPrompt(run: PromptRun) {
  return {
    operator: run.operator_subject,
    capability: 'agent.run',
    target: run.id,
    links: { run_id: run.id, sandbox_id: run.sandbox_id },
  }
}
