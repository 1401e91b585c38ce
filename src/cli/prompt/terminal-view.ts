/** An agent at work, for a person: its words as they come, and a line for each thing that it does. */
import type { AgentEvent, ToolState } from '../../harnesses/acp/events.ts'
import { formatDuration } from '../../lib/duration.ts'
import { printable } from '../output.ts'

const TITLE_COLUMNS = 56
const MAX_KNOWN = 10_000
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
  readonly dim: (text: string) => string
}

export class TerminalView {
  readonly #options: ViewOptions
  readonly #begun = new Map<string, number>()
  readonly #ended = new Set<string>()
  #speaks: 'text' | 'thinking' | undefined
  #atLineStart = true

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
        this.line(`  ${printable(event.text)}`)
        return
      case 'plan': {
        const done = event.entries.filter(({ status }) => status === 'completed').length
        const next = event.entries.find(({ status }) => status === 'in_progress')
        const what = next === undefined ? '' : `: ${printable(next.text)}`
        this.#options.draw(`  plan ${done} of ${event.entries.length}${what}`)
      }
    }
  }

  /** A whole line, wherever the words stood. */
  line(text: string): void {
    this.#break()
    this.#speaks = undefined
    this.#options.write(`${text}\n`)
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
    const pieces = text.split('\n')
    for (const [at, piece] of pieces.entries()) {
      if (at > 0) {
        write('\n')
        this.#atLineStart = true
      }
      if (piece === '') continue
      const shown = `${this.#atLineStart ? '  ' : ''}${printable(piece)}`
      write(kind === 'thinking' ? dim(shown) : shown)
      this.#atLineStart = false
    }
  }

  #tool(tool: ToolState): void {
    const { nowMs, draw } = this.#options
    if (this.#ended.has(tool.id)) return
    if (this.#ended.size + this.#begun.size > MAX_KNOWN) this.#forget()
    if (!this.#begun.has(tool.id)) this.#begun.set(tool.id, nowMs())
    const isOver = tool.status === 'completed' || tool.status === 'failed'
    if (!isOver) {
      this.#break()
      draw(`  ● ${titleOf(tool)} …`)
      return
    }
    this.#ended.add(tool.id)
    const took = nowMs() - this.#begun.get(tool.id)!
    this.line(`  ${tool.status === 'failed' && tool.exitCode === null ? '✗' : '●'} ${lineOf(tool, took)}`)
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

function lineOf(tool: ToolState, tookMs: number): string {
  const changes = tool.diffs.map(({ added, removed }) => `+${added} −${removed}`).join(' ')
  const facts = [
    ...(changes === '' ? [] : [changes]),
    ...(tool.exitCode === null ? [] : [`exit ${tool.exitCode}`]),
    ...(tool.kind === 'execute' ? [formatDuration(tookMs)] : []),
  ]
  if (facts.length === 0) return titleOf(tool)
  return `${titleOf(tool).padEnd(TITLE_COLUMNS)} ${facts.join('   ')}`
}

function titleOf({ kind, title, paths, diffs }: ToolState): string {
  const path = diffs[0]?.path ?? paths[0]
  const what = kind !== 'execute' && path !== undefined && !title.includes(path) ? path : title
  const verb = VERBS[kind]
  const isSaid = verb === '' || what.toLowerCase().startsWith(verb)
  return printable(isSaid ? what : `${verb} ${what}`).slice(0, 200)
}
