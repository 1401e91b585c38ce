/**
 * The starting point of agent tests: the real store, sealer, backend and adapters for one operator and one workspace.
 */
import { mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type InProcessStore, inProcessStore } from '../../../test/in-process-store.ts'
import { tempFolder } from '../../../test/temp-folder.ts'
import { createGrant } from '../../policy/grants.ts'
import { TestClock } from '../../policy/policy.fixture.ts'
import { enableProcedure } from '../../providers/provider-settings.ts'
import { processCommands } from '../../sandboxes/backends/process/command-backend.ts'
import { ensureFixtureAction } from '../../sandboxes/fixture-action.ts'
import { unknownSecret } from '../../secrets/secret.ts'
import type { RunInput } from './execute.ts'
import { newRunIds } from './execute.ts'
import { type AgentProfile, launchAgent } from './launch-agent.ts'
import { promptSession } from './prompt-session.ts'
import type { RunDeps } from './run-deps.ts'

export const ADA_OPERATOR = 'operator:ada'
export const OLLAMA = 'provider_local_ollama'

export interface AgentScene extends Disposable {
  readonly deps: RunDeps
  readonly store: InProcessStore
  readonly clock: TestClock
  readonly workspace: string
  /** Aborts the current run, as Ctrl-C does. */
  readonly interrupt: AbortController
  launch(options?: { id?: string; profile?: AgentProfile; providerId?: string }): Promise<string>
  prompt(sessionId: string, text?: string, allowFixtureAction?: boolean): ReturnType<typeof promptSession>
  /** Lets live calls reach a server on loopback. */
  enable(baseUrl: string): Promise<void>
  register(ref: string, argv: readonly string[]): Promise<void>
  grant(ref: string, sessionId: string): Promise<string>
  /** The input of a run from a library caller, without a session or grants. */
  input(changes?: Partial<RunInput>): RunInput
}

export async function agentScene(): Promise<AgentScene> {
  const folder = tempFolder('craik-agents-')
  const workspace = join(folder, 'work')
  mkdirSync(workspace, { mode: 0o755 })
  const clock = new TestClock()
  const store = inProcessStore(clock)
  const interrupt = new AbortController()
  const deps: RunDeps = {
    store,
    log: store.log,
    home: store.home,
    clock,
    environment: {},
    credential: async (name) => {
      throw unknownSecret(name)
    },
    backend: processCommands({ craikHome: store.home.root, environment: process.env }),
    signal: interrupt.signal,
    killSignal: new AbortController().signal,
  }
  await ensureFixtureAction(store, ADA_OPERATOR)
  return {
    deps: deps,
    store,
    clock,
    workspace,
    interrupt,
    async launch({ id = 's1', profile, providerId } = {}) {
      const input = { operator: ADA_OPERATOR, issuer: 'local', sessionId: id, workspace, profile, providerId }
      return (await launchAgent(deps, input)).session.id
    },
    prompt: (sessionId, text = 'run the fixture action', allowFixtureAction = true) =>
      promptSession(deps, ADA_OPERATOR, sessionId, text, { allowFixtureAction }),
    async enable(baseUrl) {
      await store.write(enableProcedure, {
        operator: ADA_OPERATOR,
        providerId: OLLAMA,
        baseUrl,
        model: 'llama3.2',
        modelCount: 1,
      })
    },
    register: (ref, argv) => store.tables.commands.insert({ ref, argv, createdAtMs: clock.nowMs() }),
    async grant(ref, sessionId) {
      const { grant } = await createGrant(store, {
        capability: 'shell.execute',
        subject: ADA_OPERATOR,
        scope: { session_id: sessionId },
        target: { ref },
        operations: ['run'],
        max_uses: 10,
        approved_by: ADA_OPERATOR,
      })
      return grant.id
    },
    input: (changes = {}) => ({
      ...newRunIds(clock),
      operator: ADA_OPERATOR,
      prompt: 'do it',
      providerId: 'provider_fixture_local',
      transport: 'fixture',
      policyEnvelopeId: 'envelope_agent_s1',
      workspace,
      isolation: 'process',
      ...changes,
    }),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  }
}
