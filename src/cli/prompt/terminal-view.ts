/** Shows an agent's work to the user: its text as it arrives, and a line for each action. */
import type { AgentEvent, ToolState } from '../../harnesses/acp/agent-events.ts'
import { formatDuration } from '../../lib/duration.ts'
import { printable } from '../output.ts'
import { countCells, splitRows, truncateRow } from '../terminal-rows.ts'

const TITLE_COLUMNS = 56
/**
 * Every row of an agent's text begins with this. Only rows of Craik lack it, so no text from a sandbox can look like
 * one of them.
 */
const GUTTER = '  │ '
/** Thinking is also dim. Without colors, only the dot distinguishes it from an answer. */
const THINKING_GUTTER = '  │ · '
const MARK = '  ● '
const MAX_KNOWN = 10_000
const MAX_FACTS = 40
/** The word or sign before each kind of action. */
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
  /** Draws a line that the next output replaces. Does nothing if there is no terminal. */
  readonly draw: (line: string) => void
  readonly nowMs: () => number
  /** Returns the current width of a row. */
  readonly columns: () => number
  readonly dim: (text: string) => string
}

export class TerminalView {
  readonly #options: ViewOptions
  readonly #begun = new Map<string, number>()
  readonly #ended = new Set<string>()
  #speaks: 'text' | 'thinking' | undefined
  #atLineStart = true
  /** The cells of the current row that are used, without the gutter. */
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

  /** Prints a whole line. Ends the agent's row first if it is incomplete. */
  line(text: string): void {
    this.#break()
    this.#speaks = undefined
    this.#options.write(`${text}\n`)
  }

  /** Shows why the agent waits, until the next output. */
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

  /** Wraps the text and begins every row with the gutter. */
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

  /** Limits the memory, because an agent could invent tool calls without end. */
  #forget(): void {
    this.#ended.clear()
    this.#begun.clear()
  }

  #break(): void {
    if (!this.#atLineStart) this.#options.write('\n')
    this.#atLineStart = true
  }
}

/** Formats an action in one row, however long the agent's title for it is. */
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
