/**
 * The whole idea in one run, with no network: a session for each provider, a prompt, real decisions, one real command
 * in a sandbox, a handoff, and a look at what the store and the log say afterwards. Only the answers are invented.
 */
import { CraikError } from '../../errors.ts'
import { newId } from '../../lib/ids.ts'
import { findProvider, loadProviders } from '../../providers/registry.ts'
import type { SealStatus } from '../../receipts/record-seal.ts'
import type { Availability } from '../../sandboxes/backend.ts'
import type { Home } from '../../store/home.ts'
import { launchAgent } from '../agents/launch.ts'
import type { RunProgress } from '../agents/loop.ts'
import { promptSession } from '../agents/prompt.ts'
import { getHandoff, getRun, getSession } from '../agents/records.ts'
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
  /** From `chooseProviders`. */
  readonly providerIds: readonly string[]
  readonly keepArtifacts: boolean
  /** What a person who watches sees, as it happens. */
  readonly onStep: (step: DemoStep) => void
}

export type DemoStep =
  | { readonly type: 'begun'; readonly availability: Availability; readonly repository: Repository }
  | { readonly type: 'launched'; readonly providerId: string; readonly sessionId: string }
  | { readonly type: 'progress'; readonly progress: RunProgress }
  | { readonly type: 'ended'; readonly execution: Execution }
  | { readonly type: 'cleaned'; readonly sessions: number }

/** What became of one provider's session: read back from the store after the fact. */
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
  /** What the prompt answered with, before anything was read back. */
  readonly exitBehavior: string
  readonly handoffId: string
  readonly handoffStatus: string
  /** Passed in the sandbox, of those that were asked for. */
  readonly commandsPassed: number
  readonly commands: number
  readonly providerResultCount: number
  readonly receiptIds: readonly string[]
  /** Why it did not go on, when it was denied or failed. */
  readonly stopped?: { readonly reason: string; readonly hint: string }
}

export interface DemoResult {
  readonly repository: Repository
  readonly availability: Availability
  readonly executions: readonly Execution[]
  readonly artifactsCleaned: boolean
  readonly verification: OwnReceipts
  /** Every run ended by itself, its command passed, and the receipts hold. */
  readonly succeeded: boolean
}

export async function runPersistentAgentDemo(place: RunDeps, input: DemoInput): Promise<DemoResult> {
  const availability = await place.backend.probe()
  // A folder that no sandbox takes, such as the user's whole home, is refused here and not by each run.
  const { isolation } = availability
  await (await place.backend.create({ isolation, workspace: input.repository.path })).destroy()
  input.onStep({ type: 'begun', availability, repository: input.repository })
  const from = await nextReceipt(place.store)
  const executions = await execute(place, input, isolation === 'process' ? 'process' : 'none')
  const verification = await checkReceiptsSince(place, from)
  return {
    repository: input.repository,
    availability,
    executions,
    artifactsCleaned: !input.keepArtifacts,
    verification,
    succeeded: verification.holds && executions.every(isComplete),
  }
}

/** The strongest that this machine has: a demo says which that is, and shows what it can. */
type Reached = 'process' | 'none'

async function execute(place: RunDeps, input: DemoInput, isolation: Reached): Promise<readonly Execution[]> {
  const sessionIds: string[] = []
  try {
    const executions: Execution[] = []
    for (const providerId of input.providerIds) {
      place.signal.throwIfAborted()
      const sessionId = newId<string>(
        `${DEMO_SESSION_PREFIX}${providerId.replace(/^provider_/, '').slice(0, 60)}`,
        place.clock.nowMs(),
      )
      sessionIds.push(sessionId)
      executions.push(await executeOne(place, input, isolation, providerId, sessionId))
    }
    place.signal.throwIfAborted()
    return executions
  } finally {
    // Also after Ctrl-C and after a fault: what is kept is kept because somebody asked for it.
    if (!input.keepArtifacts)
      input.onStep({ type: 'cleaned', sessions: await removeSessions(place, sessionIds) })
  }
}

async function executeOne(
  place: RunDeps,
  { repository, onStep }: DemoInput,
  isolation: Reached,
  providerId: string,
  sessionId: string,
): Promise<Execution> {
  const { session } = await launchAgent(place, {
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
  const executed = await promptSession(place, DEMO_OPERATOR, sessionId, PROMPT, {
    allowFixtureAction: true,
    onProgress: (progress) => onStep({ type: 'progress', progress }),
  })
  await place.store.write(changeSession, { id: sessionId, operator: DEMO_OPERATOR, action: 'stop' })

  const { record: final, status: sessionSeal } = await getSession(place, sessionId)
  const { record: run } = await getRun(place, executed.run.id)
  const { record: handoff } = await getHandoff(place, run.handoff_id)
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

/** In the order they were given, each once, with or without `provider_` before the name; the four when none is. */
export async function chooseProviders(home: Home, wanted: readonly string[]): Promise<readonly string[]> {
  const records = await loadProviders(home)
  const ids = (wanted.length === 0 ? DEFAULT_PROVIDERS : wanted).map((id) => {
    const isShort = records.some((record) => record.id === `provider_${id}`)
    return findProvider(records, isShort ? `provider_${id}` : id).id
  })
  return [...new Set(ids)]
}

/** Those that were really launched: a launch that failed left none. */
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
