/** The contract of sandboxes: one suite that every kind of place passes, in a home of whoever runs Craik. */
import { afterAll, beforeAll, describe } from 'vitest'
import type { SandboxHome } from '../sandbox-home.ts'
import { copyContract } from './sandbox/copies.ts'
import { execContract } from './sandbox/exec.ts'
import { fileContract } from './sandbox/files.ts'
import { insideContract } from './sandbox/inside.ts'
import type { ContractInstance } from './sandbox/instance.ts'
import { lifecycleContract } from './sandbox/lifecycle.ts'
import { limitContract } from './sandbox/limits.ts'
import { networkContract } from './sandbox/network.ts'
import { settingsContract } from './sandbox/settings.ts'
import { severalContract } from './sandbox/several.ts'
import { streamContract } from './sandbox/streams.ts'
import { terminalContract } from './sandbox/terminal.ts'
import { trustContract } from './sandbox/trust.ts'
import { volumeContract } from './sandbox/volumes.ts'
import { workspaceContract } from './sandbox/workspaces.ts'

/** What is left on the machine at the end fails the suite: see how the home is disposed of. */
export function sandboxContract(name: string, open: () => Promise<SandboxHome>): void {
  describe(`the contract of sandboxes: ${name}`, () => {
    let instance: ContractInstance | undefined
    const get = (): ContractInstance => {
      if (instance === undefined) throw new Error('there is no sandbox yet')
      return instance
    }
    beforeAll(async () => {
      const home = await open()
      try {
        const box = await home.create(['--name', 'contract'])
        instance = { home, box, client: home.client() }
      } catch (error) {
        await home[Symbol.asyncDispose]()
        throw error
      }
    })
    afterAll(async () => {
      await instance?.home[Symbol.asyncDispose]()
    })

    execContract(get)
    streamContract(get)
    terminalContract(get)
    settingsContract(get)
    fileContract(get)
    copyContract(get)
    networkContract(get)
    insideContract(get)
    severalContract(get)
    workspaceContract(get)
    volumeContract(get)
    limitContract(get)
    lifecycleContract(get)
    // Last: it looks at what all the others left in the log.
    trustContract(get)
  })
}
