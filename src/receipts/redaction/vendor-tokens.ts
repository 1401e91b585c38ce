/** Credentials that announce themselves by a prefix. */
import { ALPHANUMERIC, type Alphabet, alphabet, runEnd, runStart, SLUG, startsToken } from './characters.ts'
import type { ReportFinding } from './findings.ts'

interface VendorToken {
  readonly label: string
  readonly prefixes: readonly string[]
  readonly body: Alphabet
  /** Shortest body that counts; shorter ones are words that happen to start alike. */
  readonly min: number
  /** The prefix is short enough to end an ordinary word, so it must begin a token. */
  readonly atStart?: true
  readonly accepts?: (body: string) => boolean
}

const DOTTED = alphabet(/[A-Za-z0-9_.-]/)
const UPPER = alphabet(/[A-Z0-9]/)
const BASE64 = alphabet(/[A-Za-z0-9+/_=-]/)
const PERCENT = alphabet(/[A-Za-z0-9%.-]/)
const PATH = alphabet(/[A-Za-z0-9_/-]/)
const hasDigit = (body: string) => /\d/.test(body.slice(0, 256))

export const VENDOR_TOKENS: readonly VendorToken[] = [
  {
    label: 'aws_access_key_id',
    prefixes: ['AKIA', 'ASIA', 'ABIA', 'ACCA'],
    body: UPPER,
    min: 16,
    atStart: true,
  },
  { label: 'aws_bedrock_key', prefixes: ['ABSK', 'bedrock-api-key-'], body: BASE64, min: 40, atStart: true },
  { label: 'google_api_key', prefixes: ['AIza'], body: SLUG, min: 30 },
  { label: 'google_oauth', prefixes: ['ya29.'], body: DOTTED, min: 16 },
  { label: 'google_oauth', prefixes: ['GOCSPX-'], body: SLUG, min: 16 },
  { label: 'google_oauth', prefixes: ['1//0', '4/0A'], body: SLUG, min: 24, atStart: true },
  { label: 'sk_token', prefixes: ['sk-'], body: SLUG, min: 8, atStart: true, accepts: looksLikeSkToken },
  {
    label: 'stripe_key',
    prefixes: ['sk_live_', 'sk_test_', 'rk_live_', 'rk_test_', 'whsec_'],
    body: BASE64,
    min: 10,
    accepts: (body) => hasDigit(body) || !body.includes('_'),
  },
  { label: 'github_token', prefixes: ['ghp_', 'gho_', 'ghu_', 'ghs_', 'ghr_'], body: ALPHANUMERIC, min: 16 },
  {
    label: 'github_token',
    prefixes: ['ghp-', 'gho-', 'ghu-', 'ghs-', 'ghr-'],
    body: ALPHANUMERIC,
    min: 16,
    atStart: true,
  },
  { label: 'github_token', prefixes: ['github_pat_', 'github_pat-'], body: SLUG, min: 16 },
  {
    label: 'gitlab_token',
    prefixes: ['glpat-', 'glptt-', 'gldt-', 'glrt-', 'glcbt-', 'glsoat-', 'gloas-', 'glagent-', 'glimt-'],
    body: DOTTED,
    min: 16,
    atStart: true,
  },
  {
    label: 'slack_token',
    prefixes: ['xoxb-', 'xoxp-', 'xoxa-', 'xoxr-', 'xoxs-', 'xoxc-'],
    body: SLUG,
    min: 8,
  },
  { label: 'slack_token', prefixes: ['xoxd-', 'xoxo-', 'xoxe.', 'xoxe-', 'xapp-'], body: PERCENT, min: 8 },
  {
    label: 'webhook_url',
    prefixes: [
      'hooks.slack.com/services/',
      'hooks.slack.com/workflows/',
      'discord.com/api/webhooks/',
      'discordapp.com/api/webhooks/',
    ],
    body: PATH,
    min: 12,
  },
  { label: 'huggingface_token', prefixes: ['hf_', 'api_org_'], body: ALPHANUMERIC, min: 20, atStart: true },
  { label: 'npm_token', prefixes: ['npm_'], body: ALPHANUMERIC, min: 24, atStart: true },
  { label: 'pypi_token', prefixes: ['pypi-Ag'], body: SLUG, min: 16 },
  {
    label: 'age_secret_key',
    prefixes: ['AGE-SECRET-KEY-1', 'age-secret-key-1'],
    body: ALPHANUMERIC,
    min: 16,
  },
  { label: 'groq_key', prefixes: ['gsk_'], body: ALPHANUMERIC, min: 24, atStart: true },
  { label: 'xai_key', prefixes: ['xai-'], body: SLUG, min: 24, atStart: true, accepts: hasDigit },
  { label: 'nvidia_key', prefixes: ['nvapi-'], body: SLUG, min: 24, atStart: true, accepts: hasDigit },
  { label: 'perplexity_key', prefixes: ['pplx-'], body: ALPHANUMERIC, min: 24, atStart: true },
  { label: 'replicate_token', prefixes: ['r8_'], body: ALPHANUMERIC, min: 24, atStart: true },
  { label: 'docker_token', prefixes: ['dckr_pat_', 'dckr_oat_'], body: SLUG, min: 16 },
  { label: 'digitalocean_token', prefixes: ['dop_v1_', 'doo_v1_', 'dor_v1_'], body: ALPHANUMERIC, min: 24 },
  { label: 'vault_token', prefixes: ['hvs.', 'hvb.', 'hvr.'], body: SLUG, min: 20, atStart: true },
  { label: 'sendgrid_key', prefixes: ['SG.'], body: DOTTED, min: 40, atStart: true },
  { label: 'shopify_token', prefixes: ['shpat_', 'shpca_', 'shppa_', 'shpss_'], body: ALPHANUMERIC, min: 24 },
  { label: 'tailscale_key', prefixes: ['tskey-'], body: SLUG, min: 16, atStart: true },
  { label: 'atlassian_token', prefixes: ['ATATT3', 'ATCTT3', 'ATBB'], body: BASE64, min: 28, atStart: true },
  { label: 'grafana_token', prefixes: ['glsa_', 'glc_'], body: BASE64, min: 28, atStart: true },
  { label: 'linear_key', prefixes: ['lin_api_', 'lin_oauth_'], body: ALPHANUMERIC, min: 24, atStart: true },
  { label: 'supabase_key', prefixes: ['sbp_', 'sb_secret_'], body: SLUG, min: 20, atStart: true },
]

const BY_PREFIX = new Map(VENDOR_TOKENS.flatMap((token) => token.prefixes.map((prefix) => [prefix, token])))
const PREFIX = new RegExp(
  [...BY_PREFIX.keys()].map((prefix) => prefix.replace(/[.+/]/g, '\\$&')).join('|'),
  'g',
)
/** A refused run up to this length is searched again for another prefix; a longer one would make that quadratic. */
const RESCAN_MAX = 512

export function findVendorTokens(text: string, report: ReportFinding): void {
  PREFIX.lastIndex = 0
  for (let match = PREFIX.exec(text); match !== null; match = PREFIX.exec(text)) {
    const token = BY_PREFIX.get(match[0])!
    const bodyStart = PREFIX.lastIndex
    if (token.atStart && !startsToken(text, match.index)) continue
    const end = runEnd(text, bodyStart, token.body)
    const isToken = end - bodyStart >= token.min && (token.accepts?.(text.slice(bodyStart, end)) ?? true)
    if (isToken) report(match.index, end, token.label)
    if (isToken || end - bodyStart > RESCAN_MAX) PREFIX.lastIndex = end
  }
}

const SK_FAMILY = /^(?:ant|proj|or-v1|svcacct|admin|live|test|None)-/

/** `sk-` also begins CSS classes (`sk-folding-cube`) and SSH key types (`sk-ssh-ed25519`). */
function looksLikeSkToken(body: string): boolean {
  if (body.length > 256 || SK_FAMILY.test(body)) return true
  if (body.length >= 32 && /\d/.test(body) && /[A-Z]/.test(body)) return true
  return body.split('-').some((part) => part.length >= 20 || (part.length >= 10 && /\d/.test(part)))
}

const DIGITS = alphabet(/\d/)

/** Tokens known by their shape rather than by a prefix: JWT, Telegram and Discord bots. */
export function findShapedTokens(text: string, report: ReportFinding): void {
  findJwts(text, report)
  for (let at = text.indexOf(':'); at !== -1; at = text.indexOf(':', at + 1)) {
    const digits = at - runStart(text, at, DIGITS, Math.max(0, at - 11))
    if (digits < 8 || digits > 10) continue
    const end = runEnd(text, at + 1, SLUG, at + 40)
    if (end - at - 1 === 35) report(at - digits, end, 'telegram_token')
  }
  for (let at = text.indexOf('.'); at !== -1; at = text.indexOf('.', at + 1)) {
    if (text[at + 7] !== '.') continue
    if (runEnd(text, at + 1, SLUG, at + 8) !== at + 7) continue
    const id = /[MNO][\w-]{22,27}$/.exec(text.slice(Math.max(0, at - 28), at))
    const end = runEnd(text, at + 8, SLUG)
    if (id !== null && end - at - 8 >= 27) report(at - id[0].length, end, 'discord_token')
  }
}

/** `eyJ` is base64 for `{"`: a JOSE header. A cut-off token still shows its claims, so two parts are enough. */
function findJwts(text: string, report: ReportFinding): void {
  let at = text.indexOf('eyJ')
  while (at !== -1) {
    const headerEnd = runEnd(text, at, SLUG)
    let end = headerEnd
    for (let part = 0; part < 4 && text[end] === '.'; part++) end = runEnd(text, end + 1, SLUG)
    while (end > headerEnd && text[end - 1] === '.') end--
    if (headerEnd - at >= 8 && end - headerEnd >= 5) report(at, end, 'jwt')
    at = text.indexOf('eyJ', end)
  }
}
