/** `config/accounts.yaml`: other addresses for a login, such as a self-hosted endpoint or GitHub Enterprise. */
import { z } from 'zod'
import { CraikError } from '../errors.ts'

/** In the `config` folder of a home. */
export const ACCOUNTS_FILE = 'accounts.yaml'

/** Only https is accepted: Craik never sends a credential over anything else, not even on loopback. */
const address = z
  .string()
  .max(2_000)
  .refine(isPlainHttps, 'must be a normalized https URL without user name, query, fragment or trailing slash')

const override = z.strictObject({
  base_url: address.optional(),
  token_url: address.optional(),
  /** The client id, if the issuer knows the program under another id than that of its public release. */
  client_id: z.string().min(1).max(300).optional(),
})

/** The ids of accounts, or their part before the slash. */
const NAMES = ['claude-code', 'codex', 'gemini', 'kimi', 'github', 'opencode', 'secret', 'env'] as const

/** An unknown name is an error. Otherwise a typing error would leave a login at its default address. */
const schema = z.record(
  z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._/-]{0,99}$/)
    .refine((name) => NAMES.some((known) => name === known || name.startsWith(`${known}/`)), {
      error: `is not an account; valid names are ${NAMES.join(', ')}, some followed by a slash and a name`,
    }),
  override,
)

/** By account id. */
export type Overrides = Readonly<Record<string, z.infer<typeof override>>>

/** Parses the file's content. `undefined` stands for a missing file. */
export function parseOverrides(content: unknown): Overrides {
  if (content === undefined || content === null) return {}
  const parsed = schema.safeParse(content)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  const at = issue?.path.join('.') ?? ''
  throw new CraikError(
    'invalid_config',
    `config/accounts.yaml: ${at === '' ? '' : `${at}: `}${issue?.message}`,
    {
      hint: 'fix the file, then list the logins:  craik accounts',
    },
  )
}

function isPlainHttps(text: string): boolean {
  if (!/^https:\/\/[\x21-\x7e]+$/.test(text) || /[\\@?#]/.test(text) || text.endsWith('/')) return false
  if (!URL.canParse(text)) return false
  const { href } = new URL(text)
  return href === text || href === `${text}/`
}
