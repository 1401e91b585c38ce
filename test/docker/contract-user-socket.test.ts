/** Containers pass the sandbox contract: created by an ordinary user, with the socket transport. */
import { sandboxContract } from '../contract/sandbox.ts'
import { forContainersOf } from './containers.ts'

forContainersOf('user', 'socket', sandboxContract)
