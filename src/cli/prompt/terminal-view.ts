/** An agent at work, for a person: its words as they come, and a line for each thing that it does. */
import type { AgentEvent, ToolState } from '../../harnesses/acp/agent-events.ts'
import { formatDuration } from '../../lib/duration.ts'
import { printable } from '../output.ts'
import { countCells, splitRows, truncateRow } from '../terminal-rows.ts'

const TITLE_COLUMNS = 56
/** Before every row of what an agent says: without it stands only what Craik says, which nothing inside can look like. */
const GUTTER = '  │ '
/** What an agent thinks is dim, too; without colours the dot alone tells it from an answer. */
const THINKING_GUTTER = '  │ · '
const MARK = '  ● '
const MAX_KNOWN = 10_000
const MAX_FACTS = 40
/** How a command is written, and everything else. */
const VERBS: Readonly<Record<ToolState['kind'], string>> = {
  execute: '$',
  read: 'read',
  edit: 'edit',
  delete: 'delete',
  move: 'move',
  search: 'search',
  think: 'think',
  fetch: 'fetch',
  other: '',
}

export interface ViewOptions {
  readonly write: (text: string) => void
  /** A line that the next thing written takes the place of; nothing where there is no terminal to redraw. */
  readonly draw: (line: string) => void
  readonly nowMs: () => number
  /** How wide a row is now. */
  readonly columns: () => number
  readonly dim: (text: string) => string
}

export class TerminalView {
  readonly #options: ViewOptions
  readonly #begun = new Map<string, number>()
  readonly #ended = new Set<string>()
  #speaks: 'text' | 'thinking' | undefined
  #atLineStart = true
  /** Used of this row, behind the gutter. */
  #cells = 0

  constructor(options: ViewOptions) {
    this.#options = options
  }

  show(event: AgentEvent): void {
    switch (event.type) {
      case 'text':
      case 'thinking':
        this.#say(event.type, event.text)
        return
      case 'tool':
        this.#tool(event.tool)
        return
      case 'notice':
        this.#break()
        this.#speaks = undefined
        this.#say('text', event.text)
        this.#break()
        return
      case 'plan': {
        const done = event.entries.filter(({ status }) => status === 'completed').length
        const next = event.entries.find(({ status }) => status === 'in_progress')
        const what = next === undefined ? '' : `: ${printable(next.text)}`
        this.#draw(`  plan ${done} of ${event.entries.length}${what}`)
      }
    }
  }

  /** A whole line, wherever the words stood. */
  line(text: string): void {
    this.#break()
    this.#speaks = undefined
    this.#options.write(`${text}\n`)
  }

  /** Until there is something else to show. */
  waits(why: string): void {
    this.#break()
    this.#draw(`  ${why} …`)
  }

  end(): void {
    this.#break()
  }

  #say(kind: 'text' | 'thinking', text: string): void {
    const { write, dim } = this.#options
    if (this.#speaks !== kind) {
      this.#break()
      this.#speaks = kind
    }
    const gutter = kind === 'thinking' ? THINKING_GUTTER : GUTTER
    const shown = kind === 'thinking' ? dim : (words: string) => words
    for (const [at, piece] of text.split('\n').entries()) {
      if (at > 0) {
        write(this.#atLineStart ? shown(`${gutter.trimEnd()}\n`) : '\n')
        this.#atLineStart = true
      }
      if (piece !== '') write(shown(this.#words(printable(piece), gutter)))
    }
  }

  /** What goes on in another row has the gutter there, too. */
  #words(text: string, gutter: string): string {
    const used = this.#atLineStart ? 0 : this.#cells
    const rows = splitRows(text, Math.max(8, this.#options.columns() - gutter.length), used)
    this.#cells = countCells(rows.at(-1)!) + (rows.length === 1 ? used : 0)
    const begin = this.#atLineStart ? gutter : ''
    this.#atLineStart = false
    return `${begin}${rows.join(`\n${gutter}`)}`
  }

  #draw(line: string): void {
    const { draw, columns } = this.#options
    draw(truncateRow(line, columns() - 1))
  }

  #tool(tool: ToolState): void {
    const { nowMs, columns } = this.#options
    if (this.#ended.has(tool.id)) return
    if (this.#ended.size + this.#begun.size > MAX_KNOWN) this.#forget()
    if (!this.#begun.has(tool.id)) this.#begun.set(tool.id, nowMs())
    const isOver = tool.status === 'completed' || tool.status === 'failed'
    if (!isOver) {
      this.#break()
      this.#draw(`${MARK}${titleOf(tool)} …`)
      return
    }
    this.#ended.add(tool.id)
    const took = nowMs() - this.#begun.get(tool.id)!
    const mark = tool.status === 'failed' && tool.exitCode === null ? '  ✗ ' : MARK
    this.line(`${mark}${lineOf(tool, took, columns() - mark.length)}`)
  }

  /** An agent that makes up calls without end would take all memory. */
  #forget(): void {
    this.#ended.clear()
    this.#begun.clear()
  }

  #break(): void {
    if (!this.#atLineStart) this.#options.write('\n')
    this.#atLineStart = true
  }
}

/** One row, however long the agent's words for it are. */
function lineOf(tool: ToolState, tookMs: number, columns: number): string {
  const changes = tool.diffs.map(({ added, removed }) => `+${added} −${removed}`).join(' ')
  const facts = [
    ...(changes === '' ? [] : [changes]),
    ...(tool.exitCode === null ? [] : [`exit ${tool.exitCode}`]),
    ...(tool.kind === 'execute' ? [formatDuration(tookMs)] : []),
  ]
  if (facts.length === 0) return truncateRow(titleOf(tool), columns)
  const end = facts.join('   ').slice(0, MAX_FACTS)
  const title = truncateRow(titleOf(tool), Math.max(8, columns - end.length - 1))
  return `${title.padEnd(Math.min(TITLE_COLUMNS, columns - end.length - 1))} ${end}`
}

function titleOf({ kind, title, paths, diffs }: ToolState): string {
  const path = diffs[0]?.path ?? paths[0]
  const what = kind !== 'execute' && path !== undefined && !title.includes(path) ? path : title
  const verb = VERBS[kind]
  const isSaid = verb === '' || what.toLowerCase().startsWith(verb)
  return printable(isSaid ? what : `${verb} ${what}`).slice(0, 200)
}
