/** Containers pass the sandbox contract: created by root, with the socket transport. */
import { sandboxContract } from '../contract/sandbox.ts'
import { forContainersOf } from './containers.ts'

forContainersOf('root', 'socket', sandboxContract)
