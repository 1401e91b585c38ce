/** Names that announce a secret: the key of an object, a variable, a flag, a header, a query parameter. */

const MAY_BE_SECRET = /token|pass|pwd|secret|cred|auth|cookie|key|mnemonic/i

const SECRET_WORD =
  /(?:tokens?|secrets?|passwords?|passwds?|passwort|passphrases?|passcodes?|pwds?|credentials?|creds|apikeys?|cookies?|authorization|mnemonic)$/

/** A `key` is a secret only after one of these words: `api_key` is one, `cache_key` and `public_key` are not. */
const KEY_OWNERS =
  'access account admin aes anthropic api app auth client decryption deploy encryption gemini gpg groq hmac jwt license master mistral openai private root rsa secret service shared signing ssh ssl storage stripe symmetric tls webhook'.split(
    ' ',
  )
const OWNED_KEY = new RegExp(`(?:${KEY_OWNERS.join('|')})keys?$`)
const OWNED_PASS =
  /(?:db|database|smtp|mail|email|user|admin|root|redis|mysql|pg|postgres|postgresql|mongo|mongodb|ftp|ssh|sudo|proxy|auth|http|https|imap|ldap|rabbitmq|amqp|key|keystore|basic|login|registry|docker|git|npm|service|account|api|app|vault)pass$/

/** Words after the secret word that make the value a fact about a secret. */
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
/** Actions on a secret. `secret.use` is an action, but `NPM_TOKEN_READ` can be the token itself. */
const ACTIONS = new Set('use write read bind list delete remove create get rotate'.split(' '))
/** Digests of random tokens reveal nothing. Passwords can be guessed from their digest, so that stays secret. */
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

/** A pass in the sense of a round of work or a filter. */
const PASS_OF_WORK =
  /^(?:first|second|third|last|final|one|two|single|multi|render|low|high|band|all|tests?|by)$/

/** Returns true when a value under this name is a secret. Counts, limits, references and ids are not. */
export function isSecretKey(key: string): boolean {
  return kindOfKey(key) === 'secret'
}

/**
 * The meaning of a name. Under `secret` the value is a secret, and under `plain` it is not. Under `counted`
 * (`read_token`), `asserted` (`use_password`) and `pass` it is a secret unless it is a number, a boolean or a
 * placeholder.
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

/** Returns the kind of a name, and the word that decides how its value is read. */
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

/** Matches `pass`, `--pass` and `SONAR_PASS`. The `-pass` of openssl names the source of a password. */
function namesPass(key: string, words: readonly string[]): boolean {
  if (words.at(-1) !== 'pass') return false
  if (words.length === 1) return /^(?:--)?pass$/i.test(key)
  return /^[A-Z0-9_]+$/.test(key) && !PASS_OF_WORK.test(words.at(-2)!)
}

/** Returns whether a number under this name counts tokens. A plural is a count unless it holds something else. */
export function countsTokens(key: string): boolean {
  return /tokens$/i.test(key)
}

/** Splits a name into lower-case words: snake_case, kebab-case, camelCase or dotted.names. */
function wordsOf(key: string): string[] {
  if (/^[a-z]*$/.test(key)) return [key]
  const words = key.slice(-128).match(/[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+/g) ?? []
  // `token_2` and `password1` mean the same as `token` and `password`.
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
