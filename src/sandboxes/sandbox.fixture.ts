/**
 * The common setup of sandbox tests: a store with an envelope, a receipt and registered commands, and matching
 * requests.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { InProcessStore } from '../../test/in-process-store.ts'
import type { GrantTerms } from '../policy/grant.ts'
import { createGrant } from '../policy/grants.ts'
import {
  type BuiltIn,
  POLICY_OPERATOR,
  START_MS,
  storeWith,
  type TestClock,
} from '../policy/policy.fixture.ts'
import { processCommands } from './backends/process/command-backend.ts'
import { ensureFixtureAction } from './fixture-action.ts'
import { type CommandContext, type CommandRequest, runCommandReference } from './local-process.ts'

/** A temporary folder for a workspace and a Craik home. Disposing it removes both. */
export class TestFolder implements Disposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'craik-sandbox-'))
  path(...names: readonly string[]): string {
    return join(this.folder, ...names)
  }
  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true })
  }
}

export interface SandboxScene {
  readonly store: InProcessStore
  readonly clock: TestClock
  /** The id of a receipt that requests can refer to. */
  readonly receiptId: string
  /** Registers an argv under a name. */
  register(ref: string, argv: readonly string[]): Promise<void>
  /** Creates a single-use grant for one command. */
  grant(ref: string, changes?: Partial<GrantTerms>): Promise<string>
}

export async function sandboxScene(profile: BuiltIn = 'automation'): Promise<SandboxScene> {
  const { store, clock } = await storeWith(profile)
  await ensureFixtureAction(store, POLICY_OPERATOR)
  const receipt = await store.log.append({
    kind: 'provider_action',
    status: 'passed',
    operator: POLICY_OPERATOR,
    capability: 'model.chat',
    links: { task_id: 'task-1' },
  })
  return {
    store,
    clock,
    receiptId: receipt.id,
    register: (ref, argv) => store.tables.commands.insert({ ref, argv, createdAtMs: START_MS }),
    async grant(ref, changes = {}) {
      const { grant } = await createGrant(store, {
        capability: 'shell.execute',
        subject: POLICY_OPERATOR,
        scope: { task_id: 'task-1' },
        target: { ref },
        operations: ['run'],
        approved_by: POLICY_OPERATOR,
        ...changes,
      })
      return grant.id
    },
  }
}

/** Returns a complete request for a local command. `changes` overrides the fields that matter to a test. */
export async function localRequest(
  scene: SandboxScene,
  command_ref: string,
  changes: Partial<CommandRequest> & Pick<CommandRequest, 'workspace'>,
): Promise<CommandRequest> {
  return {
    kind: 'local_process',
    backend_id: 'sandbox_local_process',
    operator: POLICY_OPERATOR,
    scope: { task_id: 'task-1' },
    policy_envelope_id: 'policy_task-1',
    capability_grant_id: await scene.grant(command_ref),
    receipt_id: scene.receiptId,
    command_ref,
    ...changes,
  }
}

export function contextFor(
  scene: SandboxScene,
  craikHome: string,
  environment: NodeJS.ProcessEnv = process.env,
): CommandContext {
  return {
    store: scene.store,
    log: scene.store.log,
    environment,
    backend: processCommands({ craikHome, environment }),
  }
}

/** Registers an argv under a new name, grants it, runs it, and expects that it is allowed. */
export async function runArgv(
  scene: SandboxScene,
  context: CommandContext,
  argv: readonly string[],
  changes: Partial<CommandRequest> & Pick<CommandRequest, 'workspace'>,
) {
  const ref = `argv-${(await scene.store.tables.commands.list()).length}`
  await scene.register(ref, argv)
  const outcome = await runCommandReference(context, await localRequest(scene, ref, changes))
  if (outcome.outcome === 'denied') throw new Error(`denied: ${outcome.decision.reason}`)
  return outcome
}
