/** Parses the commands of a documentation page and their expected output. */

export interface DocsStep {
  /** The line of the page, from 1. */
  readonly line: number
  /** The prompt as the page shows it, with the space before the command. */
  readonly prompt: string
  /** Whether the command is typed in a sandbox's terminal. */
  readonly isInside: boolean
  readonly command: string
  readonly expected: readonly string[]
  readonly exit: number
  /** The number of expected lines after which Ctrl-C is pressed. */
  readonly interruptAfter: number | undefined
}

interface DocsBlock {
  readonly steps: readonly DocsStep[]
}

interface DocsNeeds {
  readonly docker: boolean
  readonly model: boolean
  /** The agents with a login. */
  readonly logins: readonly string[]
  /** The agents that are installed without a login. */
  readonly agents: readonly string[]
  /** The names of API keys that their providers accept. */
  readonly keys: readonly string[]
}

export interface DocsPage {
  readonly file: string
  readonly needs: DocsNeeds
  readonly blocks: readonly DocsBlock[]
  /** The reasons why the page cannot be run. */
  readonly problems: readonly string[]
}

const OUTSIDE = /^(\$ )(.*)$/
const INSIDE = /^( ?[\w.-]+ [~/]\S* [$#] )(.*)$/
const FENCE = /^(\s*)```(\S*)/

export function parsePage(file: string, text: string): DocsPage {
  const problems: string[] = []
  const needs = {
    docker: false,
    model: false,
    logins: [] as string[],
    agents: [] as string[],
    keys: [] as string[],
  }
  const blocks: DocsBlock[] = []
  const lines = text.split('\n')
  let isSkipped = false
  for (let at = 0; at < lines.length; at++) {
    const test = /^<!-- test: (.*) -->$/.exec(lines[at]!)?.[1]
    if (test !== undefined) {
      if (/^not run: \S/.test(test)) return { file, needs, blocks: [], problems }
      for (const need of test.split(/,\s*/))
        if (!addNeed(needs, need)) problems.push(`${file}:${at + 1}: nobody knows the need "${need}"`)
      continue
    }
    if (/^\s*<!-- not run: \S.* -->$/.test(lines[at]!)) {
      isSkipped = true
      continue
    }
    const fence = FENCE.exec(lines[at]!)
    if (fence === null) {
      if (lines[at]!.trim() !== '') isSkipped = false
      continue
    }
    const [, indent = '', language] = fence
    const start = at + 1
    while (++at < lines.length && !lines[at]!.startsWith(`${indent}\`\`\``));
    if (language === 'console' && !isSkipped) {
      const body = lines
        .slice(start, at)
        .map((line) => line.slice(line.startsWith(indent) ? indent.length : 0))
      blocks.push({ steps: parseBlock(file, body, start + 1, problems) })
    }
    isSkipped = false
  }
  return { file, needs, blocks, problems }
}

function addNeed(
  needs: { docker: boolean; model: boolean; logins: string[]; agents: string[]; keys: string[] },
  need: string,
): boolean {
  const [kind, name] = need.replace(/^needs /, '').split(' ')
  if (kind === 'docker') needs.docker = true
  else if (kind === 'model') needs.model = true
  else if (kind === 'login' && name !== undefined) needs.logins.push(name)
  else if (kind === 'agent' && name !== undefined) needs.agents.push(name)
  else if (kind === 'key' && name !== undefined) needs.keys.push(name)
  else return kind === 'process'
  return true
}

function parseBlock(
  file: string,
  body: readonly string[],
  firstLine: number,
  problems: string[],
): DocsStep[] {
  const steps: DocsStep[] = []
  for (let at = 0; at < body.length; at++) {
    const outside = OUTSIDE.exec(body[at]!)
    const start = outside ?? INSIDE.exec(body[at]!)
    if (start === null) {
      if (body[at]!.trim() !== '' && !body[at]!.startsWith('# '))
        problems.push(`${file}:${firstLine + at}: output without a command above it`)
      continue
    }
    const line = firstLine + at
    let command = start[2]!
    while (command.endsWith('\\') && at + 1 < body.length) command += `\n${body[++at]!}`
    const delimiter = /<<-?\s*['"]?(\w+)['"]?/.exec(command)?.[1]
    if (delimiter !== undefined)
      while (at + 1 < body.length) {
        command += `\n${body[++at]!}`
        if (body[at]!.trim() === delimiter) break
      }
    const expected: string[] = []
    let exit = 0
    let interruptAfter: number | undefined
    for (; at + 1 < body.length && !OUTSIDE.test(body[at + 1]!) && !INSIDE.test(body[at + 1]!); at++) {
      const next = body[at + 1]!
      const code = /^# exit (\d+)$/.exec(next)?.[1]
      if (code !== undefined) exit = Number(code)
      else if (next === '^C') interruptAfter = expected.length
      else if (next.trim() !== '' && !next.startsWith('# ')) expected.push(next)
    }
    // A `# text` at the end of a command stays, because an interactive shell also treats it as a comment.
    steps.push({
      line,
      prompt: start[1]!,
      isInside: outside === null,
      command,
      expected,
      exit,
      interruptAfter,
    })
  }
  return steps
}
