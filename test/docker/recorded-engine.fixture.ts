/** A socket in front of an engine that records its requests. */
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export class RecordedEngine implements AsyncDisposable {
  readonly address: string
  /** Entries such as `POST /build`, with the query. */
  readonly requests: string[] = []
  readonly #folder = mkdtempSync(join(tmpdir(), 'craik-recorded-'))
  readonly #server: Server

  private constructor(engine: string) {
    const path = join(this.#folder, 'engine.sock')
    this.address = `unix://${path}`
    this.#server = createServer((client) => {
      const there = connect(engine.replace(/^unix:\/\//, ''))
      // No chunk of a request body begins with a method, a path and a version.
      client.on('data', (chunk) => {
        const line = /^(?:GET|POST|PUT|DELETE|HEAD) \S+(?= HTTP\/1\.1\r\n)/.exec(chunk.toString('latin1'))
        if (line !== null) this.requests.push(line[0].replace(/ \/v[0-9.]+/, ' '))
      })
      client.pipe(there).pipe(client)
      for (const [one, other] of [
        [client, there],
        [there, client],
      ] as const) {
        one.on('error', () => other.destroy())
        one.on('close', () => other.destroy())
      }
    })
  }

  static async open(engine: string): Promise<RecordedEngine> {
    const recorded = new RecordedEngine(engine)
    await new Promise<void>((done) =>
      recorded.#server.listen(recorded.address.replace(/^unix:\/\//, ''), done),
    )
    return recorded
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
