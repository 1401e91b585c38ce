/** Which names announce a secret: the key of an object, a variable, a flag, a header, a query parameter. */

const MAY_BE_SECRET = /token|pass|pwd|secret|cred|auth|cookie|key|mnemonic/i

const SECRET_WORD =
  /(?:tokens?|secrets?|passwords?|passwds?|passwort|passphrases?|passcodes?|pwds?|credentials?|creds|apikeys?|cookies?|authorization|mnemonic)$/

/** A `key` is a secret only when one of these owns it: `api_key` is, `cache_key` and `public_key` are not. */
const KEY_OWNERS =
  'access account admin aes anthropic api app auth client decryption deploy encryption gemini gpg groq hmac jwt license master mistral openai private root rsa secret service shared signing ssh ssl storage stripe symmetric tls webhook'.split(
    ' ',
  )
const OWNED_KEY = new RegExp(`(?:${KEY_OWNERS.join('|')})keys?$`)
const OWNED_PASS =
  /(?:db|database|smtp|mail|email|user|admin|root|redis|mysql|pg|postgres|postgresql|mongo|mongodb|ftp|ssh|sudo|proxy|auth|http|https|imap|ldap|rabbitmq|amqp|key|keystore|basic|login|registry|docker|git|npm|service|account|api|app|vault)pass$/

/** What follows the secret word when the value is a fact about a secret rather than the secret. */
const FACTS = new Set(
  `id ids ref refs name names count counts limit limits budget budgets remaining used usage type types kind mode modes
  url uri endpoint endpoints path paths file files filename dir policy policies expiry expires expiration at in ttl
  length size enabled disabled required present missing status state version format scope scopes lifetime source
  store provider providers prefix issuer audience algorithm arn region bucket manager scanning helper broker stdin
  reset rotation rotated created updated decision window rate cost price per estimate estimates total index class
  field fields label labels title description hint help min max age strength validator rules schema fd`.split(
    /\s+/,
  ),
)
/** What may be done with a secret. `secret.use` is an action; `NPM_TOKEN_READ` may be the token itself. */
const ACTIONS = new Set('use write read bind list delete remove create get rotate'.split(' '))
/** Digests of random tokens give nothing away; those of passwords can be guessed, so they stay secret. */
const DIGESTS = new Set(['hash', 'digest', 'sha256', 'fingerprint', 'checksum'])

const COUNTED = new Set(
  `max min num n total sum avg average mean estimated expected actual input output prompt completion reasoning thinking
  context cached cache read write creation created used unused remaining spent billed consumed generated sampled
  processed accepted rejected prediction visible hidden audio image text video tool provider budget limit allowed
  available new fencing count of`.split(/\s+/),
)
const ASSERTED = new Set(
  'has is needs need requires require required allow allows allowed supports support use uses missing no without redact mask forbid deny expose num'.split(
    ' ',
  ),
)

/** A pass that is a round of work or a filter. */
const PASS_OF_WORK =
  /^(?:first|second|third|last|final|one|two|single|multi|render|low|high|band|all|tests?|by)$/

/** True when a value under this name is a secret; counts, limits, references and ids are not. */
export function isSecretKey(key: string): boolean {
  return kindOfKey(key) === 'secret'
}

/**
 * What a name says of its value: a `secret` is one; under `counted` (`read_token`), `asserted` (`use_password`) and
 * `pass` it is one unless it reads as a number, a yes or no, or a placeholder; under `plain` it is none.
 */
export type KeyKind = 'secret' | 'counted' | 'asserted' | 'pass' | 'plain'

export function kindOfKey(key: string): KeyKind {
  return MAY_BE_SECRET.test(key) ? classifyKey(key).kind : 'plain'
}

export interface KeyClass {
  readonly kind: KeyKind
  /** The last word of the name, in lower case. */
  readonly lastWord: string
}

/** The judgement with the word that decides how the value is read. */
export function classifyKey(key: string): KeyClass {
  const words = wordsOf(key)
  return { kind: key === '_auth' ? 'secret' : kindOf(key, words), lastWord: words.at(-1) ?? '' }
}

function kindOf(key: string, words: readonly string[]): KeyKind {
  const last = key === 'PWD' || key === 'OLDPWD' ? -1 : lastSecretWord(words)
  if (last === -1) return namesPass(key, words) ? 'pass' : 'plain'
  const word = words[last]!
  const before = words[last - 1]
  if (last < words.length - 1) {
    const fact = words.at(-1)!
    if (FACTS.has(fact) || words.includes('per', last)) return 'plain'
    if (ACTIONS.has(fact)) return /\.[a-z]+$/.test(key) ? 'plain' : 'asserted'
    return DIGESTS.has(fact) && !word.startsWith('pass') ? 'plain' : 'secret'
  }
  if (before === undefined) return 'secret'
  if (/tokens?$/.test(word) && COUNTED.has(before)) return 'counted'
  return ASSERTED.has(words[0]!) ? 'asserted' : 'secret'
}

/** `pass`, `--pass` and `SONAR_PASS`; `-pass` of openssl says where a password is found. */
function namesPass(key: string, words: readonly string[]): boolean {
  if (words.at(-1) !== 'pass') return false
  if (words.length === 1) return /^(?:--)?pass$/i.test(key)
  return /^[A-Z0-9_]+$/.test(key) && !PASS_OF_WORK.test(words.at(-2)!)
}

/** Whether a number under this name counts tokens; a plural is a count unless it holds something else. */
export function countsTokens(key: string): boolean {
  return /tokens$/i.test(key)
}

/** Names as lower-case words, from snake_case, kebab-case, camelCase and dotted.names alike. */
function wordsOf(key: string): string[] {
  if (/^[a-z]*$/.test(key)) return [key]
  const words = key.slice(-128).match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+/g) ?? []
  // `token_2` and `password1` name the same thing as `token` and `password`.
  while (words.length > 1 && /^\d/.test(words.at(-1)!)) words.pop()
  return words.map((word) => word.toLowerCase())
}

function lastSecretWord(words: readonly string[]): number {
  for (let at = words.length - 1; at >= 0; at--) {
    const word = words[at]!
    if (SECRET_WORD.test(word)) return at
    if (!/(?:keys?|pass)$/.test(word)) continue
    const joined = (words[at - 1] ?? '') + word
    if (OWNED_KEY.test(joined) || OWNED_PASS.test(joined)) return at
  }
  return -1
}
