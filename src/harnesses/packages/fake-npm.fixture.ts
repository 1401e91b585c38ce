/** A program named npm that runs a given script, in its own folder. Tests use it in place of npm and a registry. */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export class FakeNpm {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
    mkdirSync(folder, { recursive: true })
  }

  /**
   * The environment with which the test starts Craik. Its `HOME` is the folder with the recorded `calls` and
   * `environment`.
   */
  get environment(): NodeJS.ProcessEnv {
    return { PATH: `${this.#folder}:/usr/bin:/bin`, HOME: this.#folder }
  }

  /**
   * Sets the script of the program. Each call adds a line to `calls` and then runs the script in the current folder.
   */
  setScript(script: string): this {
    const path = join(this.#folder, 'npm')
    writeFileSync(path, `#!/bin/sh\necho "$*" >>"$HOME/calls"\nenv >"$HOME/environment"\n${script}\n`)
    chmodSync(path, 0o755)
    return this
  }

  /** Creates the file that Kimi's recipe uses as its program, and a type definition that pruning removes. */
  setKimiScript(more = ''): this {
    return this.setScript(`
      at=node_modules/@moonshot-ai/kimi-code/dist
      mkdir -p $at node_modules/.bin
      echo 'console.log("kimi")' >$at/main.mjs
      echo types >$at/main.d.ts
      ln -s ../@moonshot-ai/kimi-code/dist/main.mjs node_modules/.bin/kimi
      echo 'npm http fetch GET 200 https://somewhere.test/kimi.tgz 3ms' >&2
      ${more}`)
  }
}
