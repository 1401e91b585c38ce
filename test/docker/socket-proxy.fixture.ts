/** A socket in front of an engine's socket. When it is shut, the engine exists but does not answer. */
import { chmodSync, rmSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'

export class SocketProxy implements AsyncDisposable {
  readonly path: string
  readonly #engine: string
  readonly #open = new Set<Socket>()
  #server: Server | undefined

  private constructor(engine: string, folder: string) {
    this.#engine = engine.replace('unix://', '')
    this.path = join(folder, 'gate.sock')
  }

  static async open(engine: string, folder: string): Promise<SocketProxy> {
    const gate = new SocketProxy(engine, folder)
    await gate.reopen()
    return gate
  }

  async reopen(): Promise<void> {
    rmSync(this.path, { force: true })
    const server = createServer({ allowHalfOpen: true }, (outer) => {
      const inner = connect({ path: this.#engine, allowHalfOpen: true })
      for (const [one, other] of [
        [outer, inner],
        [inner, outer],
      ] as const) {
        this.#open.add(one)
        one.on('error', () => other.destroy())
        one.on('close', () => this.#open.delete(one))
        one.pipe(other)
      }
    })
    this.#server = server
    await new Promise<void>((done) => server.listen(this.path, done))
    chmodSync(this.path, 0o666)
  }

  shut(): void {
    this.#server?.close()
    for (const socket of this.#open) socket.destroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.shut()
  }
}
