/** Passwords in the short flags of commands: `docker login -p x`, `mysql -px`, `redis-cli -a x`, `openssl -k x`. */
import type { ReportFinding } from './findings.ts'
import { isPlaceholder } from './placeholders.ts'
import { bareExtent, findQuotedExtent, openingQuote } from './value-extents.ts'

interface PasswordFlag {
  readonly command: RegExp
  readonly flag: RegExp
  /** The value can follow without a space. */
  readonly glued?: true
}

const FLAGS: readonly PasswordFlag[] = [
  {
    command: /\b(?:docker|podman|nerdctl|buildah|skopeo|crane|oras|helm|az|oc|cf)\b[^\n]{0,64}\blogin\b/,
    flag: /^-p$/,
  },
  { command: /\b(?:mysql|mysqldump|mysqladmin|mariadb|mariadb-dump)\b/, flag: /^-p$/, glued: true },
  { command: /\bredis-cli\b/, flag: /^-a$/ },
  { command: /\bopenssl\b/, flag: /^-[kK]$/ },
]

const COMMAND = /login|mysql|mariadb|redis-cli|openssl/
const FLAG =
  /(?<=[\s"'])(-[pakK])(?:([ \t]{1,4}|=|\\{0,7}["'][ \t]{0,4},[ \t]{0,4})|(?=[^\s"'=\\-]|["'][^\s"',)\]}]))/g
/** The distance before a flag within which its command is searched. */
const REACH = 256

export function findCommandPasswords(text: string, report: ReportFinding): void {
  if (!COMMAND.test(text)) return
  for (const match of text.matchAll(FLAG)) {
    const isGlued = match[2] === undefined
    if (!takesPassword(commandBefore(text, match.index), match[1]!, isGlued)) continue
    const at = match.index + match[0].length
    const quote = openingQuote(text, at)
    const { start, end } =
      quote === undefined ? bareExtent(text, at, false) : findQuotedExtent(text, quote.at, quote.depth)
    const value = text.slice(start, end)
    if (!isPlaceholder(value) && !/^(?:-|[<>|&;]|\$[\w{(])/.test(value)) report(start, end, 'command')
  }
}

/** Returns the text before the flag in the same command. */
function commandBefore(text: string, flag: number): string {
  const window = text.slice(Math.max(0, flag - REACH), flag)
  return window.slice(Math.max(...['\n', '\\n', ';', '|', '&'].map((end) => window.lastIndexOf(end))) + 1)
}

function takesPassword(command: string, flag: string, isGlued: boolean): boolean {
  return FLAGS.some(
    (known) => known.flag.test(flag) && (!isGlued || known.glued === true) && known.command.test(command),
  )
}

/** The same for a list of arguments: the item after `-p`, or the item `-px`. */
export function isCommandPassword(items: readonly unknown[], index: number): boolean {
  const item = items[index]
  if (index === 0 || typeof item !== 'string' || typeof items[0] !== 'string') return false
  const command = () => items.slice(0, Math.min(index, 8)).join(' ')
  const flag = items[index - 1]
  if (typeof flag === 'string' && /^-[pakK]$/.test(flag))
    return !item.startsWith('-') && !isPlaceholder(item) && takesPassword(command(), flag, false)
  return /^-p./.test(item) && !isPlaceholder(item.slice(2)) && takesPassword(items[0], '-p', true)
}
