/** Launches a session, and prepares the provider, envelope and workspace of a run. */
import { randomBytes } from 'node:crypto'
import { realpathSync, statSync } from 'node:fs'
import { basename, resolve } from 'node:path'
import { CraikError } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import { REFERENCE } from '../../lib/ids.ts'
import { refuseSecrets } from '../../policy/decision-request.ts'
import { buildEnvelope, createEnvelope, getEnvelope } from '../../policy/envelope.ts'
import { type PolicyProfile, profileText } from '../../policy/profiles.ts'
import { findProvider, loadProviders } from '../../providers/load-providers.ts'
import { redactText } from '../../receipts/redaction/redact.ts'
import type { Availability } from '../../sandboxes/backend.ts'
import type { CommandBackend } from '../../sandboxes/command-backend.ts'
import type { Home } from '../../store/home.ts'
import type { Store } from '../../store/store.ts'
import { sessionExists } from './agent-records.ts'
import type { Session } from './agent-session.ts'
import { LOCAL_BACKEND_ID, type RunInput } from './execute.ts'
import { VERSION } from './record-fields.ts'
import { launchSession } from './tokens.ts'

const DEFAULT_PROVIDER_ID = 'provider_fixture_local'
/** For unattended work: every call needs a fitting grant, and under `strict` no command runs. */
export type AgentProfile = 'automation' | 'strict'

/** Leaves space for the prefix of the envelope's id. */
const SESSION_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,119}$/
const MAX_NAME_CHARACTERS = 100

export interface PrepareWorkspace {
  readonly store: Store
  readonly home: Home
  readonly clock: Clock
  readonly backend: CommandBackend
}

export interface Wanted {
  readonly operator: string
  readonly providerId?: string | undefined
  readonly modelId?: string | undefined
  /** Deterministic answers with the provider's record and limits, without a network connection. */
  readonly fixture?: boolean | undefined
  readonly workspace: string
  /** Default: `process`. Work that cannot be isolated is refused and does not run on the host instead. */
  readonly isolation?: 'process' | 'none' | undefined
}

export type PreparedRun = Pick<
  RunInput,
  'providerId' | 'modelId' | 'transport' | 'workspace' | 'isolation'
> & {
  readonly availability: Availability
}

/** Checks everything that can be refused before anything is written. */
export async function prepareRun({ home, backend }: PrepareWorkspace, wanted: Wanted): Promise<PreparedRun> {
  const record = findProvider(await loadProviders(home), wanted.providerId ?? DEFAULT_PROVIDER_ID)
  if (!record.modes.includes('chat')) {
    throw new CraikError(
      'usage',
      `${record.id} does not support 'chat' (supported: ${record.modes.join(', ')})`,
      { hint: 'choose another provider:  craik provider list' },
    )
  }
  if (wanted.modelId !== undefined && !REFERENCE.test(wanted.modelId)) {
    throw new CraikError(
      'usage',
      'invalid model id: use letters, digits and . _ : / @ -, at most 200 characters',
    )
  }
  const requested = resolve(wanted.workspace)
  if (!statSync(requested, { throwIfNoEntry: false })?.isDirectory()) {
    throw new CraikError('usage', `the workspace ${wanted.workspace} is not a folder`, {
      hint: 'name the folder to work in:  --workspace .',
    })
  }
  // The real path, because the target of a link can change before a command starts.
  const workspace = realpathSync(requested)
  const availability = await backend.probe()
  const isolation = wanted.isolation ?? 'process'
  if (isolation === 'process' && availability.isolation !== 'process') {
    throw new CraikError('unavailable', `process isolation is unavailable: ${availability.reason}`, {
      hint: `${availability.fix ?? 'check this machine:  craik doctor'}   or run without isolation:  --isolation none`,
    })
  }
  // A folder that no sandbox can mount is refused here rather than in the middle of a run.
  await using _ = await backend.create({ isolation, workspace })
  return {
    providerId: record.id,
    ...(wanted.modelId !== undefined && { modelId: wanted.modelId }),
    transport: wanted.fixture || record.provider === 'fixture' ? 'fixture' : 'live',
    workspace,
    isolation,
    availability,
  }
}

/** Returns the named envelope, or a separate one for a session or a task. */
export async function prepareEnvelope(
  { store, home, clock }: PrepareWorkspace,
  operator: string,
  wanted: {
    readonly envelopeId?: string | undefined
    readonly profile?: AgentProfile | undefined
    readonly own: { readonly id?: string; readonly taskId: string | null }
  },
): Promise<string> {
  if (wanted.envelopeId !== undefined) {
    if (wanted.profile !== undefined) {
      throw new CraikError('usage', '--policy-envelope-id cannot be combined with --profile', {
        hint: 'omit one of the two: a policy envelope has its own profile',
      })
    }
    const known = await getEnvelope(store, wanted.envelopeId)
    if (known !== undefined) return known.id
    throw new CraikError('not_found', `unknown policy envelope: ${wanted.envelopeId.slice(0, 200)}`, {
      hint: 'create a policy envelope:  craik policy show --profile automation --task-id TASK --include-receipt',
    })
  }
  const profile: PolicyProfile = wanted.profile ?? 'automation'
  const policyText = await profileText(profile, home)
  const envelope = buildEnvelope({
    ...wanted.own,
    actor: operator,
    profile,
    policyText,
    nowMs: clock.nowMs(),
  })
  return (await createEnvelope(store, envelope, policyText, { operator, receipt: true })).envelope.id
}

export interface LaunchInput extends Wanted {
  readonly issuer: string
  readonly sessionId?: string | undefined
  /** Default: the workspace's name. */
  readonly projectId?: string | undefined
  readonly envelopeId?: string | undefined
  readonly profile?: AgentProfile | undefined
  readonly name?: string | undefined
}

export interface LaunchedRun {
  readonly session: Session
  readonly seal: string
  readonly availability: Availability
}

export async function launchAgent(
  prepareWorkspace: PrepareWorkspace,
  input: LaunchInput,
): Promise<LaunchedRun> {
  const { operator, issuer, name } = input
  const prepared = await prepareRun(prepareWorkspace, input)
  const projectId = input.projectId ?? projectOf(prepared.workspace)
  const id = input.sessionId ?? (await freeId(prepareWorkspace, projectId, prepared.providerId))
  if (!SESSION_ID.test(id)) {
    throw new CraikError('usage', 'invalid session id: use letters, digits and . _ -, at most 120 characters')
  }
  refuseSecrets({ session_id: id, model_id: prepared.modelId }, 'the session')
  if ((await prepareWorkspace.store.read((tables) => tables.sessions.get(id))) !== undefined)
    throw sessionExists(id)
  const envelopeId = await prepareEnvelope(prepareWorkspace, operator, {
    envelopeId: input.envelopeId,
    profile: input.profile,
    own: { id: `envelope_agent_${id}`, taskId: null },
  })
  const now = new Date(prepareWorkspace.clock.nowMs()).toISOString()
  const launched = await prepareWorkspace.store.write(launchSession, {
    session: {
      schema: 'craik.agent_session',
      version: VERSION,
      id,
      display_name: sessionName(name ?? id),
      project_id: projectId,
      operator_subject: operator,
      operator_issuer: issuer,
      provider_id: prepared.providerId,
      model_id: prepared.modelId ?? null,
      transport: prepared.transport,
      policy_envelope_id: envelopeId,
      backend_id: LOCAL_BACKEND_ID,
      isolation: prepared.isolation,
      workspace: prepared.workspace,
      mode: 'interactive',
      status: 'idle',
      active_task_id: null,
      active_run_id: null,
      created_at: now,
      updated_at: now,
      receipt_ids: [],
      receipt_count: 0,
      handoff_ids: [],
      recovery: null,
      redacted: true,
    },
  })
  return { session: launched.session, seal: launched.seal, availability: prepared.availability }
}

/** Returns the name as one line of visible text, with secrets redacted. */
export function sessionName(provided: string): string {
  const name = redactText(provided.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ').trim()).text
  if (name !== '' && name.length <= MAX_NAME_CHARACTERS) return name
  throw new CraikError('usage', `the name of a session must have 1 to ${MAX_NAME_CHARACTERS} characters`)
}

/** Returns `agent_<project>_<provider>_<time>`, with a short random suffix if that id is taken. */
async function freeId(
  { store, clock }: PrepareWorkspace,
  projectId: string,
  providerId: string,
): Promise<string> {
  const time = new Date(clock.nowMs()).toISOString().replace(/\D/g, '').slice(0, 14)
  const id = `agent_${projectId}_${providerId.replace(/^provider_/, '').slice(0, 40)}_${time}`
  const taken = (await store.read((tables) => tables.sessions.get(id))) !== undefined
  return taken ? `${id}_${randomBytes(3).toString('hex')}` : id
}

/** Returns the folder's name, as far as a reference can contain it. */
function projectOf(workspace: string): string {
  const name = basename(workspace)
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, 40)
  return name === '' || redactText(name).labels.length > 0 ? 'project' : name
}
