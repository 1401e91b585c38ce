/** What is asked of a sandbox: one schema per kind. Ids may be missing, which is then a denial and not a mistake. */
import { z } from 'zod'
import { capabilityName, parseInput, reference, refuseSecrets, scopeIds } from '../policy/decision-request.ts'
import { isSecretKey } from '../receipts/redaction/redact.ts'

/** Longer than any reference, so what was cut is still none: the decision refuses it, with a receipt. */
const CARRIED_CHARACTERS = 256

/** An empty id is a missing one. */
const id = z.union([z.literal('').transform(() => undefined), reference]).optional()

/** A reference names a host or a login; it never carries one. */
const plainReference = reference.refine((value) => !/@|token=/i.test(value), {
  message: 'must be the name of a reference, without @',
})

/** Part of what policy sees as the target, so it has no slash of its own. */
const simpleName = plainReference
  .max(64)
  .refine((value) => !value.includes('/'), { message: 'must not contain /' })

const common = {
  backend_id: reference,
  operator: reference,
  scope: scopeIds.default({}),
  policy_envelope_id: id,
  capability_grant_id: id,
  /** The receipt of what led here, such as the model's answer that asked for the command. */
  receipt_id: id,
}

/** Any text: whether it is the name of a registered command is for the decision to say. */
const commandRef = z.string().transform((text) => text.slice(0, CARRIED_CHARACTERS))

const localProcess = z.strictObject({
  ...common,
  kind: z.literal('local_process'),
  capability: capabilityName.default('shell.execute'),
  operation: reference.default('run'),
  command_ref: commandRef,
  /** `none` has to be named: it is the host itself. */
  isolation: z.enum(['process', 'none']).default('process'),
})

const remoteShell = z.strictObject({
  ...common,
  kind: z.literal('remote_shell'),
  capability: capabilityName.default('shell.remote.execute'),
  operation: reference.default('run'),
  command_ref: commandRef,
  target: z
    .strictObject({
      id: simpleName,
      host_ref: plainReference.optional(),
      user_ref: plainReference.optional(),
      port_ref: plainReference.optional(),
      auth_ref_name: plainReference.optional(),
    })
    .optional(),
})

const container = z.strictObject({
  ...common,
  kind: z.literal('container'),
  capability: capabilityName.default('container.run'),
  operation: reference.default('run'),
  command_ref: commandRef,
  image_ref: reference,
  network_mode: z.enum(['none', 'bridge', 'restricted']),
  mounts: z
    .array(
      z.strictObject({
        source_ref: reference,
        target_path: z.string().regex(/^\/[^\0\n]{0,299}$/, 'must be an absolute path'),
        mode: z.enum(['read_only', 'read_write']),
      }),
    )
    .max(50),
  env_ref_names: z.array(reference).max(100),
  privileged: z.boolean(),
})

const browserTool = z.strictObject({
  ...common,
  kind: z.literal('browser_tool'),
  tool_name: simpleName,
  capability: capabilityName.default('browser.use'),
  operation: reference.default('use'),
  action_ref: commandRef,
  result_metadata: z.record(z.string(), z.json()).default({}),
})

const sandboxRequest = z.discriminatedUnion('kind', [localProcess, remoteShell, container, browserTool])

export type SandboxRequest = z.infer<typeof sandboxRequest>
export type SandboxRequestInput = z.input<typeof sandboxRequest>
export type LocalProcessRequest = z.input<typeof localProcess>

/** Parses a request. The command's text and a tool's results are not looked at here; neither is written down. */
export function parseSandboxRequest(input: unknown): SandboxRequest {
  const request = parseInput(sandboxRequest, input, 'the sandbox request')
  const {
    command_ref: _,
    action_ref: __,
    result_metadata: ___,
    ...references
  } = request as SandboxRequest & {
    readonly command_ref?: string
    readonly action_ref?: string
    readonly result_metadata?: unknown
  }
  refuseSecrets(references, 'the sandbox request')
  return request
}

/** What a browser or tool brings back that is content and not a fact about it. */
const CONTENT_KEYS = new Set('body cookies dom headers html payload screenshot storagestate text'.split(' '))

/** A copy without content and without what is named like a secret, at any depth. */
export function redactResultMetadata(metadata: unknown): Record<string, unknown> {
  return withoutContent(metadata, 0) as Record<string, unknown>
}

const MAX_DEPTH = 16

function withoutContent(value: unknown, depth: number): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (depth > MAX_DEPTH) return null
  if (Array.isArray(value)) return value.map((item) => withoutContent(item, depth + 1))
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !isContent(key))
      .map(([key, member]) => [key, withoutContent(member, depth + 1)]),
  )
}

function isContent(key: string): boolean {
  return (
    CONTENT_KEYS.has(key.toLowerCase().replace(/[^a-z]/g, '')) ||
    isSecretKey(key) ||
    /secret|token|api_?key|password|credential/i.test(key)
  )
}
