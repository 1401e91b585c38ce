/** Containers pass the sandbox contract: created by root, with the relay transport. */
import { sandboxContract } from '../contract/sandbox.ts'
import { forContainersOf } from './containers.ts'

forContainersOf('root', 'relay', sandboxContract)
