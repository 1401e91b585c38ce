/**
 * The request for an action in a sandbox, with one schema per kind. A missing id leads to a denial, not to a parse
 * error.
 */
import { z } from 'zod'
import { capabilityName, parseInput, reference, refuseSecrets, scopeIds } from '../policy/decision-request.ts'
import { isSecretKey } from '../receipts/redaction/redact.ts'

/** Longer than any reference, so a truncated text is still not a reference. The decision refuses it, with a receipt. */
const CARRIED_CHARACTERS = 256

/** An empty id counts as missing. */
const id = z.union([z.literal('').transform(() => undefined), reference]).optional()

/** A reference names a host or a login. It never contains the host or login itself. */
const plainReference = reference.refine((value) => !/@|token=/i.test(value), {
  message: 'must be the name of a reference, without @',
})

/** Becomes part of the target for the policy, so it contains no slash. */
const simpleName = plainReference
  .max(64)
  .refine((value) => !value.includes('/'), { message: 'must not contain /' })

const common = {
  backend_id: reference,
  operator: reference,
  scope: scopeIds.default({}),
  policy_envelope_id: id,
  capability_grant_id: id,
  /** The receipt of the cause, such as the model's answer that requested the command. */
  receipt_id: id,
}

/** Any text. The decision checks whether it names a registered command. */
const commandRef = z.string().transform((text) => text.slice(0, CARRIED_CHARACTERS))

const localProcess = z.strictObject({
  ...common,
  kind: z.literal('local_process'),
  capability: capabilityName.default('shell.execute'),
  operation: reference.default('run'),
  command_ref: commandRef,
  /** A caller must name `none` explicitly, because it runs on the host itself. */
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

/**
 * Parses a request. Does not check the command's text and a tool's results for secrets, because neither is recorded as
 * it is.
 */
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

/** The keys of a browser's or tool's result that contain content instead of facts about it. */
const CONTENT_KEYS = new Set('body cookies dom headers html payload screenshot storagestate text'.split(' '))

/** Returns a copy without content and without keys that look like secrets, at any depth. */
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
