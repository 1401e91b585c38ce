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
  field fields label labels title description hint help min max age strength validator rules schema
  fd use write read bind list delete remove create get rotate`.split(/\s+/),
)
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

/** True when a value under this name is a secret; counts, limits, references and ids are not. */
export function isSecretKey(key: string): boolean {
  return MAY_BE_SECRET.test(key) && judgeKey(key).isSecret
}

export interface KeyJudgement {
  readonly isSecret: boolean
  /** The last word of the name, in lower case. */
  readonly lastWord: string
}

/** The judgement with the word that decides how the value is read. */
export function judgeKey(key: string): KeyJudgement {
  const words = wordsOf(key)
  return { isSecret: key === '_auth' || namesSecret(key, words), lastWord: words.at(-1) ?? '' }
}

function namesSecret(key: string, words: readonly string[]): boolean {
  const last = key === 'PWD' || key === 'OLDPWD' ? -1 : lastSecretWord(words)
  if (last === -1) return false
  const word = words[last]!
  const before = words[last - 1]
  if (last < words.length - 1) {
    const fact = words.at(-1)!
    if (FACTS.has(fact) || words.includes('per', last)) return false
    return !(DIGESTS.has(fact) && !word.startsWith('pass'))
  }
  if (before === undefined) return true
  if (/tokens?$/.test(word) && COUNTED.has(before)) return false
  return !ASSERTED.has(words[0]!)
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
