/** The contract of sandboxes: one suite that every kind of sandbox instance passes, in the home of any user. */
import { afterAll, beforeAll, describe } from 'vitest'
import type { SandboxHome } from '../sandbox-home.ts'
import { copyContract } from './sandbox/copies.ts'
import { execContract } from './sandbox/exec.ts'
import { fileContract } from './sandbox/files.ts'
import { processContract } from './sandbox/inside.ts'
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

/** Fails when the suite leaves anything on the host: the disposal of the home checks that. */
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
    processContract(get)
    severalContract(get)
    workspaceContract(get)
    volumeContract(get)
    limitContract(get)
    lifecycleContract(get)
    // Must be last, because it checks the log of all the others.
    trustContract(get)
  })
}
