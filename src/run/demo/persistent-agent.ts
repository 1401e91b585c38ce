/**
 * Shows everything in one run without a network: a session per provider, a prompt, real decisions, one real command in
 * a sandbox, a handoff, and the records in the store and the log. Only the model's answers are invented.
 */
import { CraikError } from '../../errors.ts'
import { newId } from '../../lib/ids.ts'
import { findProvider, loadProviders } from '../../providers/load-providers.ts'
import type { SealStatus } from '../../receipts/record-seal.ts'
import type { Availability } from '../../sandboxes/backend.ts'
import type { Home } from '../../store/home.ts'
import { launchAgent } from '../agents/launch-agent.ts'
import type { RunProgress } from '../agents/loop.ts'
import { promptSession } from '../agents/prompt-session.ts'
import { getHandoff, getRun, getSession } from '../agents/read-agent-records.ts'
import type { RunDeps } from '../agents/run-deps.ts'
import { changeSession } from '../agents/tokens.ts'
import { checkReceiptsSince, nextReceipt, type OwnReceipts } from './own-receipts.ts'
import { DEMO_OPERATOR, DEMO_SESSION_PREFIX, removeDemoSession } from './removal.ts'
import type { Repository } from './repository.ts'

const DEFAULT_PROVIDERS = [
  'provider_openai',
  'provider_anthropic',
  'provider_gemini',
  'provider_local_ollama',
]
const PROMPT = 'Run the registered fixture action once, then say whether it passed.'

export interface DemoInput {
  readonly repository: Repository
  /** The result of `chooseProviders`. */
  readonly providerIds: readonly string[]
  readonly keepArtifacts: boolean
  /** Receives each step for display. */
  readonly onStep: (step: DemoStep) => void
}

export type DemoStep =
  | { readonly type: 'begun'; readonly availability: Availability; readonly repository: Repository }
  | { readonly type: 'launched'; readonly providerId: string; readonly sessionId: string }
  | { readonly type: 'progress'; readonly progress: RunProgress }
  | { readonly type: 'ended'; readonly execution: Execution }
  | { readonly type: 'cleaned'; readonly sessions: number }

/** The result of one provider's session, read from the store afterwards. */
export interface Execution {
  readonly providerId: string
  readonly sessionId: string
  readonly launchStatus: string
  readonly sessionStatus: string
  readonly sessionSeal: SealStatus
  readonly taskId: string
  readonly runId: string
  readonly runStatus: string
  readonly stopReason: string | null
  /** The direct result of the prompt, before anything was read from the store. */
  readonly exitBehavior: string
  readonly handoffId: string
  readonly handoffStatus: string
  /** The number of requested commands that passed in the sandbox. */
  readonly commandsPassed: number
  readonly commands: number
  readonly providerResultCount: number
  readonly receiptIds: readonly string[]
  /** Why a denied or failed run stopped. */
  readonly stopped?: { readonly reason: string; readonly hint: string }
}

export interface DemoResult {
  readonly repository: Repository
  readonly availability: Availability
  readonly executions: readonly Execution[]
  readonly artifactsCleaned: boolean
  readonly verification: OwnReceipts
  /** True when every run completed, its command passed, and the receipts are valid. */
  readonly succeeded: boolean
}

export async function runPersistentAgentDemo(deps: RunDeps, input: DemoInput): Promise<DemoResult> {
  const availability = await deps.backend.probe()
  // A folder that no sandbox can mount, such as the whole home folder, is refused here instead of in each run.
  const { isolation } = availability
  await (await deps.backend.create({ isolation, workspace: input.repository.path })).destroy()
  input.onStep({ type: 'begun', availability, repository: input.repository })
  const from = await nextReceipt(deps.store)
  const executions = await execute(deps, input, isolation === 'process' ? 'process' : 'none')
  const verification = await checkReceiptsSince(deps, from)
  return {
    repository: input.repository,
    availability,
    executions,
    artifactsCleaned: !input.keepArtifacts,
    verification,
    succeeded: verification.holds && executions.every(isComplete),
  }
}

/** The strongest isolation on this host. A demo reports it and shows what is possible. */
type Reached = 'process' | 'none'

async function execute(deps: RunDeps, input: DemoInput, isolation: Reached): Promise<readonly Execution[]> {
  const sessionIds: string[] = []
  try {
    const executions: Execution[] = []
    for (const providerId of input.providerIds) {
      deps.signal.throwIfAborted()
      const sessionId = newId<string>(
        `${DEMO_SESSION_PREFIX}${providerId.replace(/^provider_/, '').slice(0, 60)}`,
        deps.clock.nowMs(),
      )
      sessionIds.push(sessionId)
      executions.push(await executeOne(deps, input, isolation, providerId, sessionId))
    }
    deps.signal.throwIfAborted()
    return executions
  } finally {
    // This also runs after Ctrl-C and after a fault: artifacts stay only on request.
    if (!input.keepArtifacts)
      input.onStep({ type: 'cleaned', sessions: await removeSessions(deps, sessionIds) })
  }
}

async function executeOne(
  deps: RunDeps,
  { repository, onStep }: DemoInput,
  isolation: Reached,
  providerId: string,
  sessionId: string,
): Promise<Execution> {
  const { session } = await launchAgent(deps, {
    operator: DEMO_OPERATOR,
    issuer: 'local',
    sessionId,
    projectId: repository.name,
    providerId,
    fixture: true,
    workspace: repository.path,
    isolation,
    name: `demo on ${repository.name}`,
  })
  onStep({ type: 'launched', providerId, sessionId })
  const executed = await promptSession(deps, DEMO_OPERATOR, sessionId, PROMPT, {
    allowFixtureAction: true,
    onProgress: (progress) => onStep({ type: 'progress', progress }),
  })
  await deps.store.write(changeSession, { id: sessionId, operator: DEMO_OPERATOR, action: 'stop' })

  const { record: final, status: sessionSeal } = await getSession(deps, sessionId)
  const { record: run } = await getRun(deps, executed.run.id)
  const { record: handoff } = await getHandoff(deps, run.handoff_id)
  const execution: Execution = {
    providerId,
    sessionId,
    launchStatus: session.status,
    sessionStatus: final.status,
    sessionSeal,
    taskId: run.task_id,
    runId: run.id,
    runStatus: run.status,
    stopReason: run.stop_reason,
    exitBehavior: executed.run.status,
    handoffId: handoff.id,
    handoffStatus: handoff.status,
    commandsPassed: handoff.commands_run.filter(({ status }) => status === 'passed').length,
    commands: handoff.commands_run.length,
    providerResultCount: run.provider_result_count,
    receiptIds: final.receipt_ids,
    ...(executed.stopped && {
      stopped: { reason: executed.stopped.reason, hint: executed.stopped.hint },
    }),
  }
  onStep({ type: 'ended', execution })
  return execution
}

/**
 * Returns the wanted providers in order, without duplicates. The prefix `provider_` is optional. Without any, it
 * returns the four defaults.
 */
export async function chooseProviders(home: Home, wanted: readonly string[]): Promise<readonly string[]> {
  const records = await loadProviders(home)
  const ids = (wanted.length === 0 ? DEFAULT_PROVIDERS : wanted).map((id) => {
    const isShort = records.some((record) => record.id === `provider_${id}`)
    return findProvider(records, isShort ? `provider_${id}` : id).id
  })
  return [...new Set(ids)]
}

/** Removes the sessions that were launched. A failed launch left none. */
async function removeSessions({ store }: RunDeps, ids: readonly string[]): Promise<number> {
  let removed = 0
  for (const sessionId of ids) {
    try {
      await store.write(removeDemoSession, { sessionId })
      removed++
    } catch (error) {
      if (!(error instanceof CraikError) || error.code !== 'not_found') throw error
    }
  }
  return removed
}

function isComplete({ runStatus, commands, commandsPassed, sessionSeal }: Execution): boolean {
  return (
    runStatus === 'completed' && commands > 0 && commandsPassed === commands && sessionSeal === 'verified'
  )
}
