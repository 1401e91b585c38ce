/** Placeholder values in the position of a secret: masking them hides nothing and loses information. */
import { REDACTED_LABEL } from './findings.ts'
import { kindOfKey } from './secret-keys.ts'

/** No placeholder is longer, so the patterns below read no more than this. */
const PLACEHOLDER_MAX = 96

const PLACEHOLDER = new RegExp(
  [
    '[*•.…_-]+',
    String.raw`\$\{[A-Za-z_][\w.]*\}`,
    String.raw`\$(?:[A-Za-z_]+|[A-Z][A-Z0-9_]*)`,
    String.raw`\$\(.*`,
    '%[A-Z_]+%',
    String.raw`%(?:\(\w+\))?[sdvqr]`,
    String.raw`\$?\{\{[^{}"']*\}\}`,
    String.raw`#?\{[A-Za-z_.]+\}`,
    '<[^<>0-9]*>',
    String.raw`[[<(]?(?:redacted|REDACTED|masked|hidden|omitted|FILTERED|filtered)[\])>]?`,
  ]
    .map((form) => `^${form}$`)
    .join('|'),
)

export function isPlaceholder(value: string): boolean {
  if (value === '' || value === REDACTED_LABEL) return true
  return value.length <= PLACEHOLDER_MAX && PLACEHOLDER.test(value)
}

const NUMBER = /^[~<>+-]?\d[\d.,_]{0,24}[a-zA-Z%]{0,2}(?:\/\d[\d.,_]{0,24}[kKmM]?)?$/
const ANSWER =
  /^(?:true|false|yes|no|on|off|y|n|ok|null|none|nil|undefined|nan|never|always|auto|allow|allowed|deny|denied|ask|required|optional|enabled|disabled|supported|unsupported|unlimited|infinity|unknown|default|n\/a)$/i

/** Returns whether a value under the name of a count or assertion is a plain fact: a number, a boolean or empty. */
export function isFact(value: string): boolean {
  return (
    isPlaceholder(value) || (value.length <= PLACEHOLDER_MAX && (NUMBER.test(value) || ANSWER.test(value)))
  )
}

const LITERALS = 'null none nil undefined true false void never nan'
const TYPES = `string str bool boolean number int integer float any unknown object bytes byte buffer char text varchar
  optional option promise list array vec vector map record secretstr secretstring uint8array keyof typeof readonly unique
  union callable dict tuple set iterable literal annotated`
const LITERAL_WORDS = new Set(LITERALS.split(' '))
const CODE_WORDS = new Set(`${LITERALS} ${TYPES}`.split(/\s+/))

/** Words that continue a sentence or expression after `password:`. One of them alone is still a value. */
const CONTINUING_WORDS = new Set(
  `a an the this that is are was were be been being has have had must should shall may might can cannot could will would
  do does did not no never for to in of on by with from and or if when as at it its you your we our please invalid
  missing required expired incorrect wrong optional refused denied rejected unable failed see use using via set
  new await async function return lambda let const import class def fn flag flags option options argument arguments parameter value file env
  instead only which what how why stdin`.split(/\s+/),
)

const ROOTS =
  /^(?:process|os|env|self|this|req|request|res|response|config|cfg|conf|options|opts|args|params|props|ctx|context|settings|secrets|vars|state|data|user|input|inputs|body|event|client|account|session|import|module|window|document|localStorage|github|steps|matrix|credentials|auth|typing|z|t|std|core|yup|joi|sys|Deno|Bun|ENV)(?:\.|\?\.|!\.|::|\[)[A-Za-z_$["'(]/
const CALL = /^[A-Za-z_$]{2,}(?:(?:\.|\?\.|::)[A-Za-z_$]+)*(?:\(|\[(?:["':-]|\d+\]))/
const GENERIC = /^(?:[&*]{0,2}|\[\])[A-Za-z]+(?=$|[[\]<>|?;,)!=])/

export interface BareValue {
  readonly key: string
  readonly value: string
  /** The text right after the value on its line. */
  readonly rest: string
  /** True for `KEY=value` without a space, where types and prose do not occur. */
  readonly tight: boolean
}

/** Returns whether an unquoted value is a placeholder, a type, an expression or the next word of a sentence. */
export function isBareNonSecret({ key, value, rest, tight }: BareValue): boolean {
  if (isPlaceholder(value)) return true
  const head = value.slice(0, PLACEHOLDER_MAX)
  if (/^[({][^\d]*$/.test(head) && !tight) return true
  if (CALL.test(head) || ROOTS.test(head)) return true
  if (/^(?:~|\.{1,2})?\/[\w./-]+\.[a-z]{2,5}$/.test(head)) return true
  const word = GENERIC.exec(head)?.[0].replace(/^[&*[\]]+/, '') ?? ''
  const isSameName = value.toLowerCase() === key.slice(key.lastIndexOf('.') + 1).toLowerCase()
  if (isSameName && (!tight || /^[,)]/.test(rest))) return true
  if (/^https?:\/\/[^?]*$/.test(head)) return true
  if (tight) return LITERAL_WORDS.has(word.toLowerCase())
  if (CODE_WORDS.has(word.toLowerCase()) || /^[A-Z][A-Za-z]*<[A-Za-z]/.test(head)) return true
  if (/^(?:[ \t]+\S|[.,;])/.test(rest) && CONTINUING_WORDS.has(value.toLowerCase())) return true
  if (/^\d{1,3}$/.test(value)) return /token$/i.test(key)
  return isIdentifier(value, rest)
}

/**
 * Matches `password: dbPassword,`, `token: CancellationToken)` and `token = GITHUB_TOKEN` in code. Without the
 * punctuation, or without a name of a type or secret, the text could also be YAML.
 */
function isIdentifier(value: string, rest: string): boolean {
  if (/^_*[A-Z]+(?:_[A-Z]+)+_*$/.test(value)) return kindOfKey(value) !== 'plain'
  if (/^(?:[,;)]| [}|&]|\?)/.test(rest) && /^[a-z]+(?:[A-Z][a-z]+|_[a-z]+)+$/.test(value))
    return kindOfKey(value) !== 'plain'
  if (!/^(?:[A-Z]{1,4}[a-z]+)+(?:\.[A-Z][A-Za-z]+)?$/.test(value)) return false
  return /^(?:[;)]| [|&]|\[\])/.test(rest) || (rest.startsWith(',') && TYPE_NAME.test(value))
}

const TYPE_NAME =
  /(?:Token|Key|KeyLike|Object|Buffer|String|Type|Options|Input|Kind|Node|Keyword|Props|Config|Credentials?|Provider|Secret)$/
