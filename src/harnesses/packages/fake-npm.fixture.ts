/** A program called npm that does as it is told, in a folder of its own: what Craik does with npm, without a registry. */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export class FakeNpm {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
    mkdirSync(folder, { recursive: true })
  }

  /** Of what craik is started with. Its `HOME` is where `said` looks. */
  get environment(): NodeJS.ProcessEnv {
    return { PATH: `${this.#folder}:/usr/bin:/bin`, HOME: this.#folder }
  }

  /** A line for each call goes to `calls` beside it; then the script runs, in the folder that it was called in. */
  does(script: string): this {
    const path = join(this.#folder, 'npm')
    writeFileSync(path, `#!/bin/sh\necho "$*" >>"$HOME/calls"\nenv >"$HOME/environment"\n${script}\n`)
    chmodSync(path, 0o755)
    return this
  }

  /** Puts there what the recipe of Kimi takes its program from, and a type that goes again. */
  installsKimi(more = ''): this {
    return this.does(`
      at=node_modules/@moonshot-ai/kimi-code/dist
      mkdir -p $at node_modules/.bin
      echo 'console.log("kimi")' >$at/main.mjs
      echo types >$at/main.d.ts
      ln -s ../@moonshot-ai/kimi-code/dist/main.mjs node_modules/.bin/kimi
      echo 'npm http fetch GET 200 https://somewhere.test/kimi.tgz 3ms' >&2
      ${more}`)
  }
}
