/**
 * Sends updates to the editor. While the editor does not read, Craik stops reading from the agents, so that their
 * output does not accumulate here.
 */
import type { AgentContext, SessionUpdate } from '@agentclientprotocol/sdk'

/** The limit for messages that the editor has not read yet. */
const MOST_BYTES = 4 * 1024 * 1024

export class Outbox {
  readonly #editor: AgentContext
  #pendingBytes = 0
  #waiting: (() => void)[] = []

  constructor(editor: AgentContext) {
    this.#editor = editor
  }

  send(sessionId: string, update: SessionUpdate): void {
    const bytes = JSON.stringify(update).length
    this.#pendingBytes += bytes
    void this.#editor
      .notify('session/update', { sessionId, update })
      // The editor disconnected, and that ends everything else too.
      .catch(() => {})
      .finally(() => this.#onTaken(bytes))
  }

  /** Returns a program's output. Craik reads it only while the unread messages are below the limit. */
  limitOutput(output: ReadableStream<Uint8Array>): ReadableStream<Uint8Array> {
    const reader = output.getReader()
    return new ReadableStream<Uint8Array>(
      {
        pull: async (controller) => {
          await this.#waitUntilDrained()
          const { value, done } = await reader.read()
          if (done) controller.close()
          else controller.enqueue(value)
        },
        cancel: (reason) => reader.cancel(reason),
      },
      { highWaterMark: 0 },
    )
  }

  #waitUntilDrained(): Promise<void> | undefined {
    if (this.#pendingBytes <= MOST_BYTES) return undefined
    return new Promise((resume) => this.#waiting.push(resume))
  }

  #onTaken(bytes: number): void {
    this.#pendingBytes -= bytes
    if (this.#pendingBytes > MOST_BYTES) return
    for (const resume of this.#waiting.splice(0)) resume()
  }
}
